package limitertest

import (
	"math"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
)

// find returns what is known of the limiters that the config makes, after asking them for
// what it leaves out. It does not judge: of a broken limiter something is found, too, and
// the rules tell that it is broken.
func (c Config) find(t *testing.T) (*facts, []error) {
	t.Helper()
	f := &facts{Config: c, queue: max(c.QueueLimit, 0)}
	r := rule{check: func(s *subject) {
		f.offers = interfacesOf(s.l) &^ f.Lacks
		if f.RealTime || f.unlimited() && f.Gate == nil {
			return
		}
		if f.Refill == 0 && f.Gate == nil {
			s.findRefill()
		}
		if f.QueueLimit == 0 {
			s.findQueue()
			if l, ok := s.l.(interface{ QueueOrder() core.QueueOrder }); ok && l.QueueOrder() == core.FairShare {
				s.QueueOrder = core.FairShare // which only flows show
			}
		}
	}}
	faults := r.faults(t, f)
	if f.Refill == 0 && !f.unlimited() {
		f.Holds = true
	}
	return f, faults
}

// findRefill finds out whether and when permits come back with time.
func (s *subject) findRefill() {
	s.Holds, s.Manual = false, false
	s.empties().Release()
	if s.l.Available() == s.Limit {
		return // Release brings them back, and it alone
	}
	if r, ok := s.l.(core.Replenisher); ok && s.is(Replenisher) {
		s.Manual = !r.AutoReplenishing()
	}
	if s.Refill = s.measureRefill(); s.Refill == 0 {
		return
	}
	s.renew()
	s.empties()
	s.refill()
	s.Holds = s.l.Available() < s.Limit
}

// measureRefill waits until all permits are back, and returns how long that took; 0 if
// they do not come.
func (s *subject) measureRefill() time.Duration {
	const steps = 10_000
	var period time.Duration
	if s.is(Replenisher) {
		period = s.l.(core.Replenisher).ReplenishmentPeriod()
	}
	begin := time.Now()
	for range steps {
		step := period
		if l := s.l.TryAcquire(s.Limit); !s.Manual && !l.Acquired() {
			if d, ok := core.RetryAfter.From(l); ok && d > 0 {
				step = d
			}
		}
		if step <= 0 {
			return 0
		}
		s.pass(step)
		if s.Manual {
			s.replenish()
		}
		if s.l.Available() >= s.Limit {
			return time.Since(begin)
		}
	}
	return 0
}

// findQueue finds out how many permits may wait, and which waiter is served first.
func (s *subject) findQueue() {
	s.QueueOrder = core.OldestFirst
	s.renew()
	s.empties()
	first := s.acquires(1)
	if !first.waits() {
		return
	}
	for s.queue = 1; s.queue < maxWaiters; s.queue++ {
		switch last := s.acquires(1); {
		case first.rejected(): // it was evicted
			s.QueueOrder = core.NewestFirst
			return
		case !last.waits():
			return
		}
	}
	s.queue = math.MaxInt
	if s.Gate != nil {
		return // it serves all at once
	}
	s.renew()
	s.empties()
	s.acquires(s.Limit)
	last := s.acquires(s.Limit)
	s.restock()
	if last.granted() {
		s.QueueOrder = core.NewestFirst
	}
}
