package limitertest

import (
	"github.com/sluice-go/sluice/core"
)

// clockGoesBack wants a limiter that was made where the clock is years ahead to count the clock as
// standing still, so that nothing takes longer than it ever does.
func clockGoesBack(s *subject) {
	s.has(s.Limit, "of a new limiter, where the clock has gone back")
	l := s.empties()
	if d, ok := core.RetryAfter.From(s.refused(1, "with nothing available")); ok && d > s.Refill {
		s.errorf("RetryAfter where the clock has gone back: %v, though all is back after %v", d, s.Refill)
	}
	if s.QueueLimit > 0 && !s.Manual {
		c := s.waiter(1, "with nothing available")
		l.Release()
		s.pass(s.Refill)
		c.wantGrant("a Refill later, where the clock has gone back")
		c.lease.Release()
	}
	l.Release()
	s.refill()
	s.refill()
	s.has(s.Limit, "after all came back, where the clock has gone back")
	s.empties()
}
