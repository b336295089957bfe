// Package before limits calls with golang.org/x/time/rate.
package before

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// NewLimiter returns a limiter of 20 calls a second with a burst of 5.
func NewLimiter() *rate.Limiter {
	return rate.NewLimiter(20, 5)
}

// Wait waits until a call may start.
func Wait(ctx context.Context, l *rate.Limiter) error {
	return l.Wait(ctx)
}

// Try reports whether a call may start now, and if not, when to retry.
func Try(l *rate.Limiter) (retryAfter time.Duration, ok bool) {
	r := l.Reserve()
	if d := r.Delay(); d > 0 {
		r.Cancel()
		return d, false
	}
	return 0, true
}

// Slow changes the limit to 10 calls a second.
func Slow(l *rate.Limiter) {
	l.SetLimit(10)
}

// Later calls f when it is its turn. If cancel is called before that, f is not called.
func Later(l *rate.Limiter, f func()) (cancel func()) {
	r := l.Reserve()
	timer := time.AfterFunc(r.Delay(), f)
	return func() {
		if timer.Stop() {
			r.Cancel()
		}
	}
}
