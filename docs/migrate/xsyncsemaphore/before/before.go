// Package before bounds concurrent work with golang.org/x/sync/semaphore.
package before

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// NewSemaphore returns a semaphore for 10 units of work at a time.
func NewSemaphore() *semaphore.Weighted {
	return semaphore.NewWeighted(10)
}

// Do runs f when n units are free.
func Do(ctx context.Context, s *semaphore.Weighted, n int, f func() error) error {
	if err := s.Acquire(ctx, int64(n)); err != nil {
		return err
	}
	defer s.Release(int64(n))
	return f()
}

// TryDo runs f if n units are free, and reports whether it did.
func TryDo(s *semaphore.Weighted, n int, f func() error) (bool, error) {
	if !s.TryAcquire(int64(n)) {
		return false, nil
	}
	defer s.Release(int64(n))
	return true, f()
}
