package limitertest

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// awaitReservation makes one of the calls whose effect on a reservation that waits is known.
func (p *play) awaitReservation() {
	inOrder := p.QueueOrder == core.OldestFirst
	switch k := p.random.IntN(9); {
	case k < 2 && inOrder:
		p.try(p.permits())
	case k < 4 && inOrder:
		p.acquire(p.permits())
	case k < 6 && inOrder:
		p.reserve(p.permits())
	case k < 8:
		p.later()
	default:
		p.unreserve()
	}
}

// reserve reserves permits, if a request for them can be predicted: those that are there, or behind others that wait in their order. The delay is the time
// until the permits become available, which a rejected request knows as RetryAfter.
func (p *play) reserve(n int) {
	alone := len(p.m.waiting) == 0 || p.QueueOrder == core.OldestFirst
	fits := p.m.fits(n)
	switch {
	case p.m.holds:
		return
	case p.m.closed:
		p.cannotReserve(n, core.ErrClosed)
		return
	case !fits && (!alone || p.Manual):
		return
	}
	var want time.Duration
	room := n <= p.m.room-p.m.queued() && (n == 0 || !p.byCalendar())
	if !fits {
		want, _ = core.RetryAfter.From(p.try(n))
	}
	c := &call{faults: &p.faults, n: n, at: time.Now()}
	c.lease = p.l.(core.Reserver).Reserve(n)
	p.leases = append(p.leases, c.lease)
	p.atOnce(c.at, "Reserve(%d)", n)
	d, ok := core.Delay.From(c.lease)
	if !fits && !room {
		if ok || !errors.Is(c.lease.Err(), core.ErrRejected) {
			p.fatalf("Reserve(%d) %s: %v, with a delay: %v, want core.ErrRejected", n, &p.m, c.lease.Err(), ok)
		}
		p.m.rejected++
		p.compare()
		return
	}
	p.wantPermits(c.lease, n, "Reserve")
	if ok == p.Manual || d != want {
		p.fatalf("Delay of Reserve(%d) %s: %v (there: %v), want the RetryAfter of a try, %v, unless Config.Manual is set", n, &p.m, d, ok, want)
	}
	c.due = c.at.Add(d)
	if st, has := p.counts(); has && !fits && st.Granted > p.m.granted { // as a chain's, and for no permits
		c.counted = true
		p.m.granted++
	}
	if n == 0 && !fits { // reserves nothing
		p.compare()
		return
	}
	p.decide(c)
}

// byCalendar reports whether the limiter's windows are those of a calendar: then no reservation waits.
func (p *play) byCalendar() bool {
	w, ok := core.As[*core.FixedWindow](p.l)
	return ok && w.Options().Calendar != core.Calendar{}
}

// unreserve refunds the latest reservation, if no request waits behind it.
func (p *play) unreserve() {
	c := p.m.waiting[len(p.m.waiting)-1]
	if c.ended != nil || !p.reaches(refunds) {
		return
	}
	p.m.leave(c)
	p.live = slices.DeleteFunc(p.live, func(other *call) bool { return other == c })
	for range 2 {
		c.lease.Refund()
		p.compare()
	}
}
