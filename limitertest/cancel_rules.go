package limitertest

import (
	"context"
	"sync"
	"time"
)

// contextEndsWait wants a wait to end as soon as its context is done, with the context's error,
// unchanged.
func contextEndsWait(s *subject) {
	s.empties()
	for _, n := range []int{1, 0} {
		c := s.waiter(n, "with nothing available")
		c.cancel()
		s.synchronize()
		c.wantError(context.Canceled, "after its context was canceled")
	}
	if s.Refill > 0 && !s.Manual {
		return // a request that can't be served by its deadline does not wait
	}
	c := s.acquiresWithin(1, time.Second)
	s.pass(time.Second - 1)
	c.mustWait("before its deadline")
	s.pass(1)
	c.wantError(context.DeadlineExceeded, "at its deadline")
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
			c.wantGrant("while its context was canceled")
			s.has(s.Limit-1, "after a grant won")
		default:
			c.wantError(context.Canceled, "while its permits came back")
			s.has(s.Limit, "after a cancellation won")
		}
		s.restock()
		s.has(s.Limit, "after a grant and a cancellation at the same time")
		s.leases, s.calls = nil, nil
	}
}
