package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// checksInOrder: negative permits, then the context, then the limit. None of them counts,
// none takes anything.
func checksInOrder(s *subject) {
	before, _ := s.counts()
	done := s.done()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, n := range []int{-1, math.MinInt} {
		if l := s.l.TryAcquire(n); l.Acquired() || !errors.Is(l.Err(), core.ErrNegativePermits) {
			s.faultf("TryAcquire(%d): acquired %v, %v, want core.ErrNegativePermits", n, l.Acquired(), l.Err())
		}
		s.fails(s.ctx, n, core.ErrNegativePermits, "")
		s.fails(done, n, core.ErrNegativePermits, "with a done context")
	}
	counts := []int{0, 1, s.Limit}
	if !s.unlimited() {
		counts = append(counts, s.Limit+1)
	}
	refuses := func(left int, when string) {
		for _, n := range counts {
			s.fails(done, n, context.Canceled, "with a cancelled context, "+when)
			s.fails(late, n, context.DeadlineExceeded, "after the context's deadline, "+when)
		}
		s.counted(before, 0, 0, "calls with negative permits and done contexts, "+when)
		s.has(left, "after calls that take nothing, "+when)
	}
	refuses(s.Limit, "with all permits available")
	if s.unlimited() {
		return
	}
	s.empties()
	before, _ = s.counts()
	refuses(0, "with nothing available")
}

// fails wants an Acquire to return that very error, at once.
func (s *subject) fails(ctx context.Context, n int, want error, when string) {
	begin := time.Now()
	l, err := s.l.Acquire(ctx, n)
	s.leases = append(s.leases, l)
	if err != want { //nolint:errorlint // unchanged is the rule
		s.faultf("Acquire(%d) %s: %v, want %v, unchanged", n, when, err, want)
		return
	}
	s.matches(l, err, "Acquire "+when)
	if took := time.Since(begin); took > 0 && !s.RealTime {
		s.faultf("Acquire(%d) %s took %v, want it to return at once", n, when, took)
	}
}

// moreThanLimit: a request that can never be served says so, whether permits are there
// or not, and does not count.
func moreThanLimit(s *subject) {
	for _, when := range []string{"of a new limiter", "with nothing available"} {
		before, _ := s.counts()
		for _, n := range []int{s.Limit + 1, math.MaxInt} {
			l := s.l.TryAcquire(n)
			s.leases = append(s.leases, l)
			s.exceeds(l.Err(), n, s.Limit, fmt.Sprintf("TryAcquire(%d) %s", n, when))
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			begin := time.Now()
			l, err := s.l.Acquire(ctx, n)
			cancel()
			s.leases = append(s.leases, l)
			s.exceeds(err, n, s.Limit, fmt.Sprintf("Acquire(%d) %s", n, when))
			s.matches(l, err, "Acquire of more than the limit")
			if took := time.Since(begin); took > 0 && !s.RealTime {
				s.faultf("Acquire(%d) %s took %v, want it to return at once", n, when, took)
			}
		}
		s.counted(before, 0, 0, "requests above the limit")
		if s.l.Available() == s.Limit {
			s.empties()
		}
	}
}

// exceeds wants the error to be core.ErrPermitsExceedLimit; and if it has numbers, that
// they are right. The limit may be that of one of a chain's.
func (s *subject) exceeds(err error, n, limit int, what string) {
	if !errors.Is(err, core.ErrPermitsExceedLimit) {
		s.faultf("%s: %v, want core.ErrPermitsExceedLimit", what, err)
	}
	if errors.Is(err, core.ErrRejected) {
		s.faultf("%s: the error is core.ErrRejected too, but no other time will do", what)
	}
	var e *core.ExceedsLimitError
	if errors.As(err, &e) && (e.Permits != n || e.Limit < limit || e.Limit >= n) {
		s.faultf("%s: the error says %d permits of %d, want %d of %d", what, e.Permits, e.Limit, n, limit)
	}
}

// probes: a request for zero permits is granted if at least one is available, takes nothing,
// and counts as a grant.
func probes(s *subject) {
	probe := func(when string) {
		before, _ := s.counts()
		available := s.l.Available()
		s.takes(0)
		if l, err := s.l.Acquire(s.ctx, 0); err != nil || !l.Acquired() || l.Permits() != 0 {
			s.faultf("Acquire(0) %s: acquired %v, %d permits, %v, want a grant of 0", when, l.Acquired(), l.Permits(), err)
		}
		s.counted(before, 2, 0, "two probes "+when)
		s.has(available, "after probes "+when)
	}
	probe("of a new limiter")
	if s.Limit > 1 {
		s.takes(s.Limit - 1)
		probe("with one permit left")
		s.takes(1)
	} else {
		s.empties()
	}
	before, _ := s.counts()
	s.refused(0, "with nothing available")
	s.counted(before, 0, 1, "a probe with nothing available")
}

// probeIgnoresQueue: a request for zero permits is granted whatever is queued.
func probeIgnoresQueue(s *subject) {
	s.takes(s.Limit - 1)
	w := s.acquires(2)
	w.mustWait("with one permit left")
	s.takes(0)
	s.acquires(0).wantGrant("with one permit left, and a waiter for two")
	w.wantWait("after probes")
}

// probeWaits: requests for zero permits wait outside the queue limit, and all are served as
// soon as a permit is available.
func probeWaits(s *subject) {
	s.empties()
	waiting := make([]*call, 0, 3)
	for range cap(waiting) {
		c := s.acquires(0)
		c.mustWait("with nothing available")
		waiting = append(waiting, c)
	}
	s.queues(0, "while probes wait")
	if s.queue > 0 && !s.unbounded() {
		s.fill()
		c := s.acquires(0)
		c.mustWait("with a full queue")
		c.cancel()
		for _, w := range s.calls {
			if w.n > 0 {
				w.cancel()
			}
		}
		s.synchronize()
	}
	s.restock()
	for _, c := range waiting {
		c.wantGrant("once permits are back")
	}
	s.has(s.Limit, "after probes were served")
}

// probesComeLast: the queue is served first, and if that takes everything, requests for zero
// permits continue to wait. They do not if the next waiter in the queue does not fit.
func probesComeLast(s *subject) {
	s.empties()
	s.release()
	first := s.Refill
	if s.Refill > 0 && !s.Manual {
		first = s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	}
	if s.Refill == 0 {
		s.empties()
	}
	probe, w := s.acquires(0), s.acquires(s.Limit)
	probe.mustWait("with nothing available")
	w.mustWait("with nothing available")
	if first < s.Refill {
		s.pass(first)
		probe.wantGrant("when the first permits come back, and a waiter wants more")
		w.wantWait("when the first permits come back")
		return
	}
	s.restock()
	w.wantGrant("once permits are back")
	probe.wantWait("once permits are back, and a waiter took them all")
	s.restock()
	probe.wantGrant("once permits are back again")
}
