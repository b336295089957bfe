package core

import (
	"context"
	"sync/atomic"
)

// Semaphore holds permits of a concurrency limiter without leases, for interfaces whose Acquire and Release
// have no place for one. Make it with [ConcurrencyLimiter.Semaphore]. It is safe for concurrent use.
type Semaphore struct {
	permits *plain
	held    atomic.Int64
}

// Semaphore returns a Semaphore of the limiter's permits. Several Semaphores of one limiter share its
// permits, and each counts what it holds.
func (l *ConcurrencyLimiter) Semaphore() *Semaphore { return &Semaphore{permits: (*plain)(l)} }

// Acquire takes n permits, waiting for them in the limiter's queue whatever its QueueLimit is, as that of
// golang.org/x/sync/semaphore does. It returns ctx.Err() if ctx is done first, [ErrPermitsExceedLimit] if n
// is more than the limit, and [ErrClosed] after the limiter's Close. For n of 0 it returns nil immediately.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	switch {
	case n == 0:
		return nil
	case s.permits == nil:
		return ErrClosed
	}
	err := s.permits.TakeWaiting(ctx, n)
	if err == nil {
		s.held.Add(int64(n))
	}
	return err
}

// TryAcquire takes n permits if they are available now, and reports whether it did.
func (s *Semaphore) TryAcquire(n int) bool {
	switch {
	case n == 0:
		return true
	case n < 0 || s.permits == nil || !s.permits.TryTake(n):
		return false
	}
	s.held.Add(int64(n))
	return true
}

// Release gives n permits back. It panics if that is more than the Semaphore holds.
func (s *Semaphore) Release(n int) {
	for n != 0 {
		held := s.held.Load()
		if n < 0 || int64(n) > held {
			panic("core: Semaphore.Release of more permits than it holds")
		}
		if s.held.CompareAndSwap(held, held-int64(n)) {
			s.permits.Give(n)
			return
		}
	}
}
