package limitertest

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// later lets time pass: all the time until everything is back, or a part of it.
func (p *play) later() {
	switch {
	case p.m.closed || p.unlimited():
	case !p.m.timed:
		p.pass(time.Second - 1)
		p.compare()
		if c := p.mortal(); c != nil {
			p.m.leave(c)
			c.want = context.DeadlineExceeded
			p.m.serve()
		}
		p.pass(1)
		p.compare()
	case p.m.holds || p.random.IntN(2) == 0:
		p.everythingBack()
	default:
		p.pass(time.Duration(p.random.Int64N(int64(p.Refill))))
		p.catchUp()
	}
}

// everythingBack releases all leases and waits until all permits are back.
func (p *play) everythingBack() {
	if p.m.holds && !p.letGo() {
		return
	}
	full := len(p.m.waiting) == 0 && !p.m.inDebt()
	p.refill()
	p.catchUp()
	if full && p.m.available() < p.m.limit {
		p.fatalf("Available() a Refill after the latest grant: %d, want %d", p.m.available(), p.m.limit)
	}
	p.late()
}

// letGo releases all leases of a chain, and reports whether the model can predict that.
func (p *play) letGo() bool {
	if p.m.inDebt() || len(p.m.waiting) > 0 {
		return false
	}
	for _, h := range p.holdings {
		h.Release()
		h.released = true
	}
	p.m.held = 0
	return true
}

// late settles or refunds a lease whose permits have been returned, when others have been taken.
func (p *play) late() {
	h := p.pick()
	if h == nil || p.over || p.m.reserved() {
		return
	}
	if p.random.IntN(4) > 0 {
		p.try(p.m.available())
	}
	if p.random.IntN(2) == 0 && p.reaches(settlements) {
		p.settleTo(h, p.random.IntN(2))
	} else {
		p.refund(h)
	}
}

// catchUp reads from the limiter which waiters time has served, and how many permits are available.
func (p *play) catchUp() {
	p.served()
	if c := p.m.next(); p.Grain > 0 && c != nil && c.n <= p.l.Available() {
		p.pass(p.Grain) // its permits may be there before they are due
		p.served()
	}
	left := p.l.Available()
	if left == 0 && p.promises() {
		p.over = true // how many permits are promised to those who wait is not known
		return
	}
	if left == 0 && p.m.inDebt() {
		p.over = true // part of the debt is paid
		return
	}
	p.m.spent = p.m.limit - left
	p.m.serve() // nobody, or the limiter lets requests wait although their permits are there
	p.compare()
}

// served notes the waiters that time has served.
func (p *play) served() {
	synctest.Wait()
	for c := p.m.next(); c != nil && !c.waits(); c = p.m.next() {
		p.m.leave(c)
		p.m.grant(c)
	}
	for _, c := range slices.Clone(p.m.waiting) {
		if c.n == 0 && !c.waits() {
			p.m.leave(c)
			p.m.grant(c)
		}
	}
}

// reset resets a rate limiter.
func (p *play) reset() {
	if !p.reaches(resets) || p.m.closed || p.m.holds && len(p.m.waiting) > 0 {
		return
	}
	p.m.spent, p.owed = 0, false
	p.resets++
	p.m.serve()
	p.l.(core.Resetter).Reset()
	p.compare()
	p.over = p.m.holds // an older lease returns its slot, and nothing of its rate
	p.late()
}
