package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// request requests permits, in one way or the other.
func (p *play) request() {
	if p.random.IntN(2) == 0 {
		p.try(p.permits())
	} else {
		p.acquire(p.permits())
	}
}

// wait has requests wait: one, or as many as may.
func (p *play) wait() {
	const most = 250 // waiters
	if p.random.IntN(4) > 0 || p.m.closed || p.m.available() > 0 || p.m.room/p.m.limit > most {
		p.acquire(min(more(p.m.available(), 1), p.m.limit))
		return
	}
	for free := p.m.room - p.m.queued(); free > 0; free = p.m.room - p.m.queued() {
		p.decide(p.start(min(free, p.m.limit), 0))
	}
}

// invalid makes a request that fails, whatever is available, without being counted: for negative permits first, then
// for a context that is done, then for more than the limit.
func (p *play) invalid() {
	n := []int{-1, math.MinInt, 0, 1, p.m.limit, more(p.m.limit, 1), math.MaxInt}[p.random.IntN(7)]
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	done := p.random.IntN(2) == 0
	if done {
		ctx, cancel = p.done(), func() {}
	}
	defer cancel()
	when := p.m.String()
	switch {
	case n < 0:
		if l := p.l.TryAcquire(n); l.Acquired() || !errors.Is(l.Err(), core.ErrNegativePermits) {
			p.errorf("TryAcquire(%d): acquired %v, %v, want core.ErrNegativePermits", n, l.Acquired(), l.Err())
		}
		p.acquiresNow(ctx, n, when).wantError(core.ErrNegativePermits, when)
		p.cannotReserve(n, core.ErrNegativePermits)
	case done:
		p.acquiresNow(ctx, n, "with a context that is done, "+when).wantError(ctx.Err(), "with a context that is done, "+when)
	case n > p.m.limit && !p.m.closed:
		p.exceeds(p.l.TryAcquire(n).Err(), n, fmt.Sprintf("TryAcquire(%d) %s", n, when))
		c := p.acquiresNow(ctx, n, when)
		p.exceeds(c.err, n, fmt.Sprintf("Acquire(%d) %s", n, when))
		c.matches("Acquire of more than the limit")
		p.cannotReserve(n, core.ErrPermitsExceedLimit)
	}
	p.compare()
}

// exceeds expects the error to be core.ErrPermitsExceedLimit; and if it has numbers, that they are
// right. The limit may be that of one of a chain's.
func (p *play) exceeds(err error, n int, what string) {
	if !errors.Is(err, core.ErrPermitsExceedLimit) || errors.Is(err, core.ErrRejected) {
		p.errorf("%s: %v, want core.ErrPermitsExceedLimit, and not core.ErrRejected, because no other time will do", what, err)
	}
	var e *core.ExceedsLimitError
	if errors.As(err, &e) && (e.Permits != n || e.Limit < p.m.limit || e.Limit >= n) {
		p.errorf("%s: the error says %d permits of %d, want %d of %d", what, e.Permits, e.Limit, n, p.m.limit)
	}
}

// cannotReserve expects Reserve to fail.
func (p *play) cannotReserve(n int, want error) {
	if !p.reaches(reservations) {
		return
	}
	if err := p.l.(core.Reserver).Reserve(n).Err(); !errors.Is(err, want) {
		p.errorf("Reserve(%d): %v, want %v", n, err, want)
	}
}

// release releases a lease, or one that has been released before, and a copy of it.
func (p *play) release() {
	h := p.pick()
	if h == nil || p.m.holds && p.m.timed && !p.m.closed {
		return // a chain has two accounts; later releases all
	}
	if p.m.holds && !h.spent && !h.released {
		p.m.held -= h.Permits()
		p.m.serve()
	}
	h.released = true
	h.With(copied.With(1)).Release()
	h.Release()
	h.Release()
	p.compare()
}

// cancel ends the context of one waiter, or of several, before all permits are released.
func (p *play) cancel(several bool) {
	if len(p.m.waiting) == 0 {
		return
	}
	gone := slices.Clone(p.m.waiting)
	if several = several && p.m.available() == 0; several { // otherwise the first to go may serve the next
		gone = slices.DeleteFunc(gone, func(c *call) bool { return c.n == 0 })
	} else {
		gone = []*call{gone[p.random.IntN(len(gone))]}
	}
	for _, c := range gone {
		p.m.leave(c)
		c.want = context.Canceled
	}
	h := p.pick()
	if several = several && !p.m.timed && h != nil && !h.released && !h.spent; several {
		h.released = true
		p.m.held -= h.Permits()
	}
	p.m.serve()
	for _, c := range gone {
		c.cancel()
	}
	if several {
		h.Release() // before the waiters have seen that their contexts are done
	}
	p.compare()
}

// turnGate opens or shuts the limiter.
func (p *play) turnGate() {
	if p.Gate == nil || p.m.closed {
		return
	}
	p.m.shut = !p.m.shut
	p.m.serve()
	p.gate(!p.m.shut)
	p.compare()
}

// close closes the limiter.
func (p *play) close() {
	for _, c := range p.m.waiting {
		c.want = core.ErrClosed
	}
	p.m.waiting = nil
	p.m.closed = true
	p.closes(p.l)
	p.compare()
	p.closes(p.l)
}
