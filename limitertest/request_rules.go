package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// checksInOrder wants negative permits to be found first, then a done context, then more than the
// limit. None of these requests counts, and none takes anything.
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
	s.acquiresNow(ctx, n, when).wantError(want, when)
}

// moreThanLimit wants a request that can never be served to fail as such, whether permits are
// available or not, and not to count.
func moreThanLimit(s *subject) {
	for _, when := range []string{"of a new limiter", "with nothing available"} {
		before, _ := s.counts()
		for _, n := range []int{s.Limit + 1, math.MaxInt} {
			l := s.l.TryAcquire(n)
			s.leases = append(s.leases, l)
			s.exceeds(l.Err(), n, s.Limit, fmt.Sprintf("TryAcquire(%d) %s", n, when))
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			c := s.acquiresNow(ctx, n, when)
			cancel()
			s.exceeds(c.err, n, s.Limit, fmt.Sprintf("Acquire(%d) %s", n, when))
			s.matches(c.lease, c.err, "Acquire of more than the limit")
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

// zeroTakesNothing wants a zero-permit request to be granted if a permit is available, to take
// nothing, and to count as a grant.
func zeroTakesNothing(s *subject) {
	zero := func(when string) {
		before, _ := s.counts()
		available := s.l.Available()
		s.takes(0)
		s.acquiresNow(s.ctx, 0, when).wantGrant(when)
		s.counted(before, 2, 0, "two zero-permit requests "+when)
		s.has(available, "after zero-permit requests "+when)
	}
	zero("of a new limiter")
	if s.Limit > 1 {
		s.takes(s.Limit - 1)
		zero("with one permit left")
		s.takes(1)
	} else {
		s.empties()
	}
	before, _ := s.counts()
	s.refused(0, "with nothing available")
	s.counted(before, 0, 1, "a zero-permit request with nothing available")
}

// zeroIgnoresQueue wants a zero-permit request to be granted whatever is queued.
func zeroIgnoresQueue(s *subject) {
	s.takes(s.Limit - 1)
	w := s.waiter(2, "with one permit left")
	s.takes(0)
	s.acquires(0).wantGrant("with one permit left, and a waiter for two")
	w.wantWait("after zero-permit requests")
}

// zeroWaits wants zero-permit requests to wait outside the queue limit, and all of them to be served
// as soon as a permit is available.
func zeroWaits(s *subject) {
	s.empties()
	waiting := make([]*call, 0, 3)
	for range cap(waiting) {
		waiting = append(waiting, s.waiter(0, "with nothing available"))
	}
	s.queues(0, "while zero-permit requests wait")
	if s.queue > 0 && !s.unbounded() {
		s.fill()
		c := s.waiter(0, "with a full queue")
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
	s.has(s.Limit, "after zero-permit requests were served")
}

// zeroComesLast wants the queue to be served before zero-permit requests, which go on waiting if that
// takes everything. They do not if the next waiter in the queue does not fit.
func zeroComesLast(s *subject) {
	s.spends()
	first := s.Refill
	if s.Refill > 0 && !s.Manual {
		first = s.retryAfter(s.refused(1, "with nothing available"), "a failed try")
	}
	if s.Refill == 0 {
		s.empties()
	}
	zero, w := s.waiter(0, "with nothing available"), s.waiter(s.Limit, "with nothing available")
	if first < s.Refill {
		s.pass(first)
		zero.wantGrant("when the first permits come back, and a waiter wants more")
		w.wantWait("when the first permits come back")
		return
	}
	s.restock()
	w.wantGrant("once permits are back")
	zero.wantWait("once permits are back, and a waiter took them all")
	s.restock()
	zero.wantGrant("once permits are back again")
}
