// Package semaphore has the API of golang.org/x/sync/semaphore over a core.ConcurrencyLimiter,
// so that the tests of a library that uses the one can run with the other.
package semaphore

import (
	"context"
	"math"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// Weighted is a semaphore. Its Release may release fewer permits than one Acquire took, or
// those of several: it releases whole leases, and settles the last for what stays taken.
type Weighted struct {
	limiter *core.ConcurrencyLimiter

	mu     sync.Mutex
	leases []core.Lease
}

// NewWeighted returns a semaphore of n permits, at least 1.
func NewWeighted(n int64) *Weighted {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: int(n), QueueLimit: math.MaxInt})
	if err != nil {
		panic(err)
	}
	return &Weighted{limiter: l}
}

// Acquire waits for n permits.
func (s *Weighted) Acquire(ctx context.Context, n int64) error {
	lease, err := s.limiter.Acquire(ctx, int(n))
	if err != nil {
		return err
	}
	s.keep(lease)
	return nil
}

// TryAcquire takes n permits if they are available, and reports whether it did.
func (s *Weighted) TryAcquire(n int64) bool {
	lease := s.limiter.TryAcquire(int(n))
	if lease.Acquired() {
		s.keep(lease)
	}
	return lease.Acquired()
}

// Release releases n permits. It panics if fewer are taken.
func (s *Weighted) Release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for left := int(n); left > 0; {
		if len(s.leases) == 0 {
			panic("semaphore: released more than held")
		}
		last := len(s.leases) - 1
		lease := s.leases[last]
		if lease.Permits() > left {
			s.leases[last] = lease.Settle(lease.Permits() - left)
			return
		}
		left -= lease.Permits()
		s.leases = s.leases[:last]
		lease.Release()
	}
}

func (s *Weighted) keep(lease core.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = append(s.leases, lease)
}
