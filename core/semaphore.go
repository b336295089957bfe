package core

import (
	"context"
	"sync/atomic"
)

// Semaphore holds permits of a concurrency limiter without leases, for interfaces whose Acquire and Release
// have no place for one. It is safe for concurrent use. Create it with [ConcurrencyLimiter.Semaphore];
// requests to the zero value fail with [ErrClosed].
type Semaphore struct {
	limiter *plain
	held    atomic.Int64
}

// Semaphore returns a Semaphore of the limiter's permits. Several Semaphores of one limiter share its
// permits, and each counts what it holds.
func (l *ConcurrencyLimiter) Semaphore() *Semaphore { return &Semaphore{limiter: (*plain)(l)} }

// Acquire takes n permits. It waits for them in the limiter's queue, even if the QueueLimit is 0, as
// golang.org/x/sync/semaphore does. Acquire returns:
//
//   - nil if n is 0, even if ctx is done or the limiter is closed
//   - [ErrNegativePermits] if n is negative
//   - ctx.Err() if ctx is done before or during the wait; then it holds none of the n permits
//   - [ErrClosed] if the limiter is closed before or during the wait
//   - an error that matches [ErrPermitsExceedLimit] if n is more than the limit
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	limiter := s.limiter
	if limiter == nil { // the zero value
		limiter = new(plain)
	}
	if ctx.Err() != nil || !limiter.TryTake(n) {
		if err := limiter.Take(ctx, nil, n); err != nil {
			return err
		}
	}
	s.held.Add(int64(n))
	return nil
}

// TryAcquire takes n permits if they are available now, and reports whether it did. It does not wait.
// It returns true if n is 0, and false if n is negative or if the limiter is closed and n is not 0.
func (s *Semaphore) TryAcquire(n int) bool {
	switch {
	case n == 0:
		return true
	case n < 0 || s.limiter == nil || !s.limiter.TryTake(n):
		return false
	}
	s.held.Add(int64(n))
	return true
}

// Release returns n permits. It panics if n is negative or more than the Semaphore holds. It may be
// called after the limiter's Close.
func (s *Semaphore) Release(n int) {
	if n < 0 {
		panic("core: Semaphore.Release of negative permits")
	}
	for n > 0 {
		held := s.held.Load()
		if int64(n) > held {
			panic("core: Semaphore.Release of more permits than it holds")
		}
		if s.held.CompareAndSwap(held, held-int64(n)) {
			s.limiter.Give(n)
			return
		}
	}
}
