// Package after limits calls with a core.TokenBucket.
package after

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
)

// NewLimiter returns a limiter of 20 calls a second with a burst of 5.
func NewLimiter() (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.PerSecond(20, 5))
}

// Wait waits until a call may start.
func Wait(ctx context.Context, l *core.TokenBucket) error {
	_, err := l.Acquire(ctx, 1) // a bucket's lease need not be released
	return err
}

// Try reports whether a call may start now, and if not, when to retry.
func Try(l *core.TokenBucket) (retryAfter time.Duration, ok bool) {
	lease := l.TryAcquire(1)
	retryAfter, _ = core.RetryAfter.From(lease)
	return retryAfter, lease.Acquired()
}

// Slow changes the limit to 10 calls a second.
func Slow(l *core.TokenBucket) error {
	return l.Update(core.PerSecond(10, 5))
}

// Later calls f when it is its turn. If cancel is called before that, f is not called.
func Later(l *core.TokenBucket, f func()) (cancel func()) {
	lease := l.Reserve(1)
	delay, _ := core.Delay.From(lease)
	timer := time.AfterFunc(delay, f)
	return func() {
		if timer.Stop() {
			lease.Refund()
		}
	}
}
