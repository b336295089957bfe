package limitertest

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// switched has the calls go through a Switch over another limiter than that of the rule.
func (s *subject) switched(over core.Limiter) *core.Switch {
	sw := core.NewSwitch(over)
	s.asked = sw
	return sw
}

// switchTakesOut wants a Switch to take a waiter out of the limiter when it is exchanged, with nothing lost.
func switchTakesOut(s *subject) {
	lease := s.empties()
	sw := s.switched(s.l)
	c := s.waiter(1, "through a core.Switch, with nothing available")
	s.queues(1, "with a waiter of a core.Switch")
	start := time.Now()
	sw.Set(core.Unlimited())
	s.atOnce(start, "Set(core.Unlimited()) of a core.Switch in which a request waits")
	s.synchronize()
	c.wantGrant("after Set(core.Unlimited()) of a core.Switch in which it waited")
	s.queues(0, "after a core.Switch took its waiter out")
	lease.Release()
	s.restock()
	s.has(s.Limit, "after a core.Switch took its waiter out, and everything came back")
}

// switchKeepsOrder wants the waiters of a Switch to wait in the limiter, in their order, when it comes to be
// in use.
func switchKeepsOrder(s *subject) {
	s.empties()
	sw := s.switched(core.Blocked())
	first := s.waiter(s.Limit, "for a core.Switch over core.Blocked")
	second := s.waiter(1, "for a core.Switch over core.Blocked")
	start := time.Now()
	sw.Set(s.l)
	s.atOnce(start, "Set of a core.Switch over core.Blocked, for which requests wait")
	s.synchronize()
	first.mustWait("after the limiter came into a core.Switch, with nothing available")
	second.mustWait("after the limiter came into a core.Switch, with nothing available")
	s.queues(s.Limit+1, "after the waiters of a core.Switch came")
	s.restock()
	first.wantGrant("when all permits are back")
	second.mustWait("behind a waiter that got all permits")
	s.restock()
	second.wantGrant("when all permits are back again")
}
