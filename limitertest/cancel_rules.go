package limitertest

import (
	"context"
	"sync"
	"time"
)

// cancelEndsWait wants a wait to end as soon as its context is done, with the context's error,
// unchanged.
func cancelEndsWait(s *subject) {
	s.empties()
	for _, n := range []int{1, 0} {
		before, _ := s.counts()
		c := s.waiter(n, "with nothing available")
		c.cancel()
		s.synchronize()
		c.wantError(context.Canceled, "after its context was cancelled")
		s.counted(before, 0, 0, "a cancelled wait")
	}
	s.queues(0, "after all waits were cancelled")
	if s.Refill > 0 && !s.Manual {
		return // a request that can't be served by its deadline does not wait
	}
	c := s.acquiresWithin(1, time.Second)
	s.pass(time.Second - 1)
	c.mustWait("before its deadline")
	s.pass(1)
	c.wantError(context.DeadlineExceeded, "at its deadline")
}

// cancelMakesRoom wants a cancelled waiter to leave its place in the queue at once.
func cancelMakesRoom(s *subject) {
	s.empties()
	waiters := s.fill()
	last := waiters[len(waiters)-1]
	last.cancel()
	s.synchronize()
	s.queues(s.queue-last.n, "after a cancellation")
	s.acquires(last.n).wantWait("in the place of one that was cancelled")
	wantWaiting("when another takes the place of one that was cancelled", waiters[:len(waiters)-1]...)
	s.queues(s.queue, "in a queue that is full again")
}

// cancelServes wants a waiter that fits once the waiter ahead is cancelled to be served.
func cancelServes(s *subject) {
	s.takes(s.Limit - 1)
	a := s.waiter(2, "with one permit left")
	b := s.waiter(1, "with one permit left, and a waiter for two ahead")
	a.cancel()
	s.synchronize()
	b.wantGrant("with one permit left, after the waiter ahead was cancelled")
}

// cancelKeepsNothing wants a waiter whose context is done before the permits come not to get them, and
// no other waiter to lose them, even if the first has had no time to see that its context is done.
func cancelKeepsNothing(s *subject) {
	for _, seen := range []bool{true, false} {
		l := s.empties()
		before, _ := s.counts()
		waiters := make([]*call, 0, 3)
		for range min(s.queue, cap(waiters)) {
			waiters = append(waiters, s.acquires(1))
		}
		wantWaiting("with nothing available", waiters...)
		for _, c := range waiters {
			c.cancel()
		}
		if seen {
			s.synchronize()
		}
		l.Release()
		s.synchronize()
		for _, c := range waiters {
			c.wantError(context.Canceled, "cancelled before permits came back")
		}
		s.counted(before, 0, 0, "cancelled waits")
		s.refill()
		s.has(s.Limit, "after the waiters were cancelled, and all came back")
		s.queues(0, "after the waiters were cancelled")
	}
}

// grantOrCancel wants a grant and a cancellation at the same time to have one outcome, and nothing to
// be lost.
func grantOrCancel(s *subject) {
	const rounds = 100
	for i := range rounds {
		l := s.empties()
		c := s.waiter(1, "with nothing available")
		// Who is started last is likely to run first.
		var race sync.WaitGroup
		switch i % 4 {
		case 0:
			race.Go(c.cancel)
			race.Go(l.Release)
		case 1:
			race.Go(l.Release)
			race.Go(c.cancel)
		case 2:
			l.Release()
			c.cancel()
		case 3:
			race.Go(l.Release)
			c.cancel()
		}
		race.Wait()
		s.refill()
		switch {
		case c.granted():
			c.wantGrant("while its context was cancelled")
			s.has(s.Limit-1, "after a grant won")
		default:
			c.wantError(context.Canceled, "while its permits came back")
			s.has(s.Limit, "after a cancellation won")
		}
		s.restock()
		s.has(s.Limit, "after a grant and a cancellation at once")
		s.leases, s.calls = nil, nil
	}
}
