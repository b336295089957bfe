package limitertest

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// refund refunds a lease.
func (p *play) refund(h *holding) {
	if h == nil || !p.reaches(refunds) || p.m.closed || !p.changes(h, 0) {
		return
	}
	h.spent, h.released = true, true
	h.Refund()
	if p.m.holds {
		h.Refund()
		h.With(copied.With(1)).Refund()
	}
	p.compare()
	h.Release()
	p.compare()
}

// settle settles a lease for another number of permits.
func (p *play) settle() {
	if h := p.pick(); h != nil {
		n := []int{0, 1, h.Permits() - 1, h.Permits(), h.Permits() + 1, more(p.m.limit, 2), -1, math.MaxInt}
		p.settleTo(h, n[p.random.IntN(len(n))])
	}
}

func (p *play) settleTo(h *holding, n int) {
	if !p.reaches(settlements) {
		return
	}
	dead := h.spent || h.released && p.m.holds
	wanted := max(n, 0)
	huge := n == math.MaxInt
	if huge && p.unlimited() || !p.changes(h, wanted) {
		return
	}
	if dead {
		h.Settle(n) // it has ended, and nothing changes
		p.compare()
		return
	}
	settled := p.settles(h.With(copied.With(7)), n)
	if wanted == h.Permits() {
		h.Lease = settled // which may be the lease itself
	} else {
		h.spent = true
		p.hold(&holding{Lease: settled, at: h.at, resets: h.resets, released: h.released})
	}
	p.compare()
	if huge {
		p.hugeDebt(p.holdings[len(p.holdings)-1])
	}
}

// changes has the model settle a lease for n permits. It reports whether the model can predict that.
func (p *play) changes(h *holding, n int) bool {
	by := n - h.Permits()
	holds := p.m.holds
	fresh := holds || h.at.Equal(time.Now())
	stale := !holds && h.resets != p.resets // granted before a reset
	switch {
	case holds && p.m.timed && h.released:
		return false
	case !holds && (h.spent || h.released):
		return false // each counts
	case !fresh && (p.Manual || p.owed || h.at.Add(p.Refill).After(time.Now())):
		return false // a part may be returned
	case by > 0 && (stale || !fresh):
		return false // a part is as a new one
	case by < 0 && (stale || !fresh), h.spent, h.released:
		by = 0
	}
	p.m.take(by)
	p.owed = p.owed || p.m.inDebt()
	p.m.serve()
	return true
}

// owe makes a debt, if that is possible.
func (p *play) owe() {
	if n := p.m.available(); n > 0 && p.m.fits(n) && p.m.limit < math.MaxInt/2 {
		debt := 1 + p.random.IntN(5)
		if p.random.IntN(10) == 0 {
			debt = math.MaxInt
		}
		p.try(n)
		p.settleTo(p.holdings[len(p.holdings)-1], more(n, debt))
	}
}

// hugeDebt settles other leases too for the most there can be, and then the lease h for 1. What is returned of it
// is not certain.
func (p *play) hugeDebt(h *holding) {
	for _, other := range p.holdings {
		if other != h && !other.spent && !other.released && p.changes(other, math.MaxInt) {
			p.settles(other.Lease, math.MaxInt)
		}
	}
	p.compare()
	p.try(1)
	p.settles(h.Lease, 1)
	if got := p.l.Available(); got < 0 || got >= p.m.limit {
		p.errorf("Available() after a lease was settled for math.MaxInt, then for 1: %d, want less than %d", got, p.m.limit)
	}
	p.over = true
}

// settlesByLeases expects no method of the limiter that is never called.
func settlesByLeases(s *subject) {
	const never = "the limiter has a method %s, which is never called: leases settle themselves; grant them with core.GrantFrom"
	if _, ok := s.l.(interface{ Refund(lease core.Lease) }); ok {
		s.errorf(never, "Refund(core.Lease)")
	}
	if _, ok := s.l.(interface {
		Settle(lease core.Lease, permits int) core.Lease
	}); ok {
		s.errorf(never, "Settle(core.Lease, int) core.Lease")
	}
}
