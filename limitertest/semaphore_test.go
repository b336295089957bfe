package limitertest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
)

// semaphore is a third-party limiter: one mutex, one list, leases by core.Grant. It
// keeps all the rules of a concurrency limiter that serves the oldest first, and says
// nothing but what the interface asks for, and its statistics. Its faults break them.
type semaphore struct {
	limit, queueLimit int

	mu     sync.Mutex
	stats  core.Statistics // all but Limit
	queue  []*sleeper
	closed bool

	// What may be wrong with it.
	greedy       bool // serves whoever fits, wherever he stands
	probesFirst  bool // serves probes when the next in the queue could be
	keepsRoom    bool // a cancelled waiter stays in the queue's count
	forgets      bool // a cancelled waiter lets no waiter pass
	keepsPermits bool // a cancelled waiter is served all the same
	losesGrants  bool // a waiter that was served when cancelled gives nothing back
}

type sleeper struct {
	n       int
	granted chan struct{} // closed when served, or refused
	err     error
}

func newSemaphore(limit, queueLimit int) *semaphore {
	return &semaphore{limit: limit, queueLimit: queueLimit, stats: core.Statistics{Available: limit}}
}

func (s *semaphore) Available() int { return s.Statistics().Available }

func (s *semaphore) Statistics() core.Statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Limit = s.limit
	return st
}

func (s *semaphore) TryAcquire(n int) core.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, decided := s.decideLocked(n)
	if !decided {
		s.stats.Rejected++
		return core.Reject(core.ReasonPhrase.With("permits exhausted"))
	}
	return l
}

// decideLocked returns the lease of a request that need not wait.
func (s *semaphore) decideLocked(n int) (core.Lease, bool) {
	switch {
	case n < 0:
		return core.Fail(core.ErrNegativePermits), true
	case s.closed:
		return core.Fail(core.ErrClosed), true
	case n > s.limit:
		return core.Fail(core.ErrPermitsExceedLimit), true
	case max(n, 1) > s.stats.Available, n > 0 && s.stats.Queued > 0:
		return core.Lease{}, false
	}
	return s.grantLocked(n), true
}

func (s *semaphore) grantLocked(n int) core.Lease {
	s.stats.Granted++
	s.stats.Available -= n
	return s.lease(n)
}

func (s *semaphore) lease(n int) core.Lease {
	return core.Grant(n, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.Available += n
		s.serveLocked()
	})
}

func (s *semaphore) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && n >= 0 {
		return core.Fail(err), err
	}
	s.mu.Lock()
	if l, decided := s.decideLocked(n); decided {
		s.mu.Unlock()
		return l, l.Err()
	}
	if n > s.queueLimit-s.stats.Queued {
		s.stats.Rejected++
		s.mu.Unlock()
		err := &core.RejectedError{Permits: n, Reason: "queue limit reached"}
		return core.Fail(err).With(core.ReasonPhrase.With(err.Reason)), err
	}
	w := &sleeper{n: n, granted: make(chan struct{})}
	s.queue = append(s.queue, w)
	s.stats.Queued += n
	s.mu.Unlock()
	return s.await(ctx, w)
}

func (s *semaphore) await(ctx context.Context, w *sleeper) (core.Lease, error) {
	select {
	case <-w.granted:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, w); i >= 0 {
		if s.keepsPermits {
			return core.Fail(ctx.Err()), ctx.Err()
		}
		s.queue = slices.Delete(s.queue, i, i+1)
		if !s.keepsRoom {
			s.stats.Queued -= w.n
		}
		if !s.forgets {
			s.serveLocked()
		}
		return core.Fail(ctx.Err()), ctx.Err()
	}
	if w.err != nil {
		return core.Fail(w.err), w.err
	}
	if err := ctx.Err(); err != nil { // granted and cancelled: the context wins
		if !s.losesGrants {
			s.stats.Granted--
			s.stats.Available += w.n
			s.serveLocked()
		}
		return core.Fail(err), err
	}
	return s.lease(w.n), nil
}

// serveLocked grants to those who are next and fit, then to the probes.
func (s *semaphore) serveLocked() {
	blocked := false
	serve := func(probes bool) {
		s.queue = slices.DeleteFunc(s.queue, func(w *sleeper) bool {
			if (w.n == 0) != probes || blocked && !probes || max(w.n, 1) > s.stats.Available {
				blocked = blocked || w.n > 0 && !s.greedy
				return false
			}
			s.stats.Queued -= w.n
			s.stats.Available -= w.n
			s.stats.Granted++
			close(w.granted)
			return true
		})
	}
	if s.probesFirst {
		serve(true)
	}
	serve(false)
	serve(true)
}

func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, w := range s.queue {
		w.err = core.ErrClosed
		close(w.granted)
	}
	s.queue, s.stats.Queued = nil, 0
	return nil
}

// quota is another one: the bare interface, so many permits a period, and no request waits.
type quota struct {
	limit  int
	period time.Duration
	grain  time.Duration // of its clock; 0: it is exact

	mu    sync.Mutex
	base  time.Time
	index int64 // of the period that taken is of
	taken int
}

func newQuota(limit int, period time.Duration) *quota {
	return &quota{limit: limit, period: period, base: time.Now()}
}

// advanceLocked returns the time left in this period.
func (q *quota) advanceLocked() time.Duration {
	since := time.Since(q.base)
	if q.grain > 0 {
		since = since.Truncate(q.grain)
	}
	if i := int64(since / q.period); i > q.index {
		q.index, q.taken = i, 0
	}
	return q.period - since%q.period
}

func (q *quota) TryAcquire(n int) core.Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.advanceLocked()
	switch {
	case n < 0:
		return core.Fail(core.ErrNegativePermits)
	case n > q.limit:
		return core.Fail(core.ErrPermitsExceedLimit)
	case max(n, 1) > q.limit-q.taken:
		return core.Reject(core.RetryAfter.With(left))
	}
	q.taken += n
	return core.Grant(n, nil)
}

// Acquire waits for a probe only: there is no queue.
func (q *quota) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if err := ctx.Err(); err != nil && n >= 0 {
		return core.Fail(err), err
	}
	for {
		l := q.TryAcquire(n)
		if n != 0 || l.Acquired() {
			return l.With(), l.Err()
		}
		left, _ := core.RetryAfter.From(l)
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return core.Fail(ctx.Err()), ctx.Err()
		}
	}
}

func (q *quota) Available() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked()
	return q.limit - q.taken
}
