// Package after bounds concurrent work with a core.ConcurrencyLimiter.
package after

import (
	"context"
	"math"

	"github.com/sluice-go/sluice/core"
)

// NewSemaphore returns a limiter for 10 units of work at a time.
func NewSemaphore() (*core.ConcurrencyLimiter, error) {
	return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: math.MaxInt})
}

// Do runs f when n units are free.
func Do(ctx context.Context, s *core.ConcurrencyLimiter, n int, f func() error) error {
	lease, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	defer lease.Release()
	return f()
}

// TryDo runs f if n units are free, and reports whether it did.
func TryDo(s *core.ConcurrencyLimiter, n int, f func() error) (bool, error) {
	lease := s.TryAcquire(n)
	if !lease.Acquired() {
		return false, nil
	}
	defer lease.Release()
	return true, f()
}
