package limitertest

import "github.com/sluice-go/sluice/core"

// reset makes the limiter as new.
func (s *subject) reset() {
	s.l.(core.Resetter).Reset()
	s.synchronize()
}

// resetFills wants a Reset to bring back everything but what is held, to cancel debts, and to leave
// the counts alone.
func resetFills(s *subject) {
	old := s.empties()
	s.refused(1, "with nothing available")
	before, _ := s.counts()
	s.reset()
	s.counted(before, 0, 0, "a Reset")
	if s.Holds {
		s.has(0, "after a Reset, with all permits held")
	}
	s.release()
	s.has(s.Limit, "after a Reset")
	s.empties()
	if s.is(Refunder) {
		s.l.(core.Refunder).Refund(old)
		s.has(0, "after a refund of a lease from before a Reset")
	}
	if s.is(Settler) {
		s.settle(old, 0)
		s.has(0, "after a lease from before a Reset was settled")
		s.renew()
		s.settles(s.takes(1), more(s.Limit, 3))
		s.reset()
		s.release()
		s.has(s.Limit, "after a Reset of a debt")
		s.empties()
	}
	if s.Manual || s.RealTime {
		return
	}
	s.release()
	d := s.retryAfter(s.refused(1, "after a Reset, with nothing available"), "a failed try after a Reset")
	if d > s.Refill {
		s.faultf("RetryAfter after a Reset: %v, though all is back after %v", d, s.Refill)
	}
	s.exact(1, d)
}

// resetServes wants a Reset to serve a waiter at once.
func resetServes(s *subject) {
	s.spends()
	c := s.waiter(1, "with nothing available")
	s.reset()
	c.wantGrant("after a Reset")
	s.has(s.Limit-1, "after a Reset that served a waiter")
}
