// Package after finds how many calls a backend can take with adaptive.
package after

import (
	"context"

	"github.com/sluice-go/sluice/adaptive"
)

// NewLimiter returns a limiter that finds how many calls the backend can take at once.
func NewLimiter() (*adaptive.Concurrency, error) {
	return adaptive.New(adaptive.Options{Max: 200})
}

// Call calls the backend, unless it has enough to do.
func Call(ctx context.Context, l *adaptive.Concurrency, call func(context.Context) error) error {
	lease := l.TryAcquire(1)
	if !lease.Acquired() {
		return lease.Err()
	}
	defer lease.Release()
	if err := call(ctx); err != nil {
		l.Drop(lease)
		return err
	}
	return nil
}
