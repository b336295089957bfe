package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A play is a random sequence of calls to a limiter. After each call the limiter and a model must
// agree: which requests are granted, rejected or wait, how many permits are available, and what the statistics
// count. The first difference ends the play.
type play struct {
	*subject
	m      model
	random *rand.Rand

	live     []*call // waiting when last compared, or new
	holdings []*holding
	owed     bool // there has been a debt
	resets   int
	phrase   string // reason phrase of failed tries
	over     bool   // the model cannot predict the next calls
}

// holding is a lease of a play.
type holding struct {
	core.Lease

	at       time.Time // time of the grant
	resets   int       // before the grant
	spent    bool      // settled or refunded
	released bool
}

const (
	plays    = 12 // number of plays of each part
	steps    = 60
	maxCalls = 20 // maximum number of calls that wait in a play, except where a step fills the queue
)

func (p *play) run() {
	p.compare()
	if !p.unlimited() && p.random.IntN(2) > 0 { // most rules are about a limiter with little left
		p.try(p.Limit - p.random.IntN(min(3, p.Limit)))
	}
	p.steps(steps)
	if !p.over && !p.reserved() && p.reaches(closing) {
		p.close()
	}
	p.steps(steps / 2)
}

func (p *play) steps(n int) {
	for ; n > 0 && !p.over; n-- {
		p.step()
	}
}

func (p *play) step() {
	if p.reserved() {
		p.awaitReservation()
		return
	}
	switch k := p.random.IntN(100); {
	case k < 5:
		p.owe()
	case k < 25:
		p.part.step(p)
	case k < 45:
		p.request()
	case k < 52:
		p.invalid()
	case k < 67:
		p.release()
	case k < 75:
		p.cancel(k%2 == 0)
	case k < 78:
		p.turnGate()
	case k < 85:
		p.later()
	default:
		if step := p.reached[p.random.IntN(len(p.reached))].step; step != nil {
			step(p)
		}
	}
}

// permits returns a number of permits at which the limiter's decision may change.
func (p *play) permits() int {
	left, room := p.m.available(), p.m.room-p.m.queued()
	n := []int{0, 1, 1, 2, left, left + 1, room, room + 1, p.m.room + 1, p.m.limit, 1 + p.random.IntN(min(p.m.limit, 1<<20))}
	return min(max(n[p.random.IntN(len(n))], 0), p.m.limit)
}

// request requests permits, in one way or the other.
func (p *play) request() {
	if p.random.IntN(2) == 0 {
		p.try(p.permits())
	} else {
		p.acquire(p.permits())
	}
}

func (p *play) try(n int) core.Lease {
	fits := p.m.fits(n)
	l := p.l.TryAcquire(n)
	p.inspect(l)
	switch err := l.Err(); {
	case p.m.closed:
		if l.Acquired() || !errors.Is(err, core.ErrClosed) {
			p.fatalf("TryAcquire(%d) after Close: acquired %v, %v, want core.ErrClosed", n, l.Acquired(), err)
		}
	case l.Acquired() != fits:
		p.fatalf("TryAcquire(%d) %s: acquired %v (%v), want %v", n, &p.m, l.Acquired(), err, fits)
	case fits:
		p.wantPermits(l, n, "TryAcquire")
		p.m.granted++
		p.m.take(n)
		p.hold(&holding{Lease: l, at: time.Now(), resets: p.resets})
	case !errors.Is(err, core.ErrRejected):
		p.fatalf("TryAcquire(%d) %s: %v, want an error that is core.ErrRejected", n, &p.m, err)
	default:
		p.m.rejected++
		p.phrase, _ = core.ReasonPhrase.From(l)
	}
	p.compare()
	return l
}

// acquire calls Acquire, unless it would wait where requests must not.
func (p *play) acquire(n int) {
	waits := !p.m.fits(n) && p.m.admits(n)
	if len(p.m.waiting) >= maxCalls || waits && !p.reaches(queue) {
		return
	}
	mortal := waits && !p.m.timed && p.Gate == nil && p.mortal() == nil && p.random.IntN(4) == 0
	limit := time.Duration(0)
	if mortal {
		limit = time.Second
	}
	c := p.start(n, limit)
	c.mortal = mortal
	p.decide(c)
}

// mortal returns the waiter whose context has a deadline, nil if there is none.
func (p *play) mortal() *call {
	if i := slices.IndexFunc(p.m.waiting, func(c *call) bool { return c.mortal }); i >= 0 {
		return p.m.waiting[i]
	}
	return nil
}

// decide expects a call to end or wait as the model predicts.
func (p *play) decide(c *call) {
	p.m.acquire(c)
	p.live = append(p.live, c)
	p.compare()
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
		p.matches(c.lease, c.err, "Acquire of more than the limit")
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

// hold remembers a lease that was granted. One of no permits has no identity.
func (p *play) hold(h *holding) {
	p.leases = append(p.leases, h.Lease)
	if h.Permits() > 0 {
		p.holdings = append(p.holdings, h)
	}
}

// pick returns one of the leases, often the newest; nil if there are none. From time to time it forgets those that are spent.
func (p *play) pick() *holding {
	if p.random.IntN(4) == 0 {
		p.holdings = slices.DeleteFunc(p.holdings, func(h *holding) bool { return h.spent || h.released && p.m.holds })
	}
	if len(p.holdings) == 0 {
		return nil
	}
	i := p.random.IntN(2 * len(p.holdings))
	return p.holdings[min(i, len(p.holdings)-1)]
}

// release releases a lease, or one that has been released before, and a copy of it.
func (p *play) release() {
	h := p.pick()
	if h == nil || p.m.holds && p.m.timed && !p.m.closed {
		return // of a chain, which has two accounts, later releases all
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
		c.expect(context.Canceled)
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
		c.expect(core.ErrClosed)
	}
	p.m.waiting = nil
	p.m.closed = true
	p.closes()
	p.compare()
	p.closes()
}

// later lets time pass: all the time until everything is back, or a part of it.
func (p *play) later() {
	switch {
	case p.m.closed || p.unlimited():
	case !p.m.timed:
		p.pass(time.Second - 1)
		p.compare()
		if c := p.mortal(); c != nil {
			p.m.leave(c)
			c.expect(context.DeadlineExceeded)
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
	if h == nil || p.over || p.reserved() {
		return
	}
	if p.random.IntN(4) > 0 {
		p.try(p.m.available())
	}
	if p.random.IntN(2) == 0 && p.reaches("settlements") {
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
	if left > p.m.limit-p.m.held {
		p.fatalf("Available() after time passed: %d, want %d at most", left, p.m.limit-p.m.held)
	}
	p.m.spent = p.m.limit - left
	if c := p.m.next(); c != nil && c.n <= left {
		p.fatalf("Acquire(%d) waits, with %d permits available", c.n, left)
	}
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

// compare expects the limiter and the model to agree about which requests wait, how many permits are available,
// and what the statistics count.
func (p *play) compare() {
	synctest.Wait()
	p.live = slices.DeleteFunc(p.live, func(c *call) bool {
		waits := slices.Contains(p.m.waiting, c)
		p.agree(c, waits)
		return !waits
	})
	left := p.m.available()
	got := p.l.Available()
	if got == 0 && p.promises() {
		left = 0
	}
	if got != left {
		p.fatalf("Available(): %d, want %d", got, left)
	}
	want := core.Statistics{
		Limit: p.m.limit, Available: left, Queued: p.m.queued(), Granted: p.m.granted, Rejected: p.m.rejected,
	}
	if st, ok := p.counts(); ok && st != want {
		p.fatalf("Statistics(): %v, want %v", st, want)
	}
}

// promises reports whether permits may be promised to those who wait, so that none are available.
func (p *play) promises() bool { return p.Grain > 0 && !p.m.holds && p.m.queued() > 0 }

// agree expects a call to wait, or to have ended as the model predicts.
func (p *play) agree(c *call, waits bool) {
	unchanged := errors.Is(c.want, context.Canceled) || errors.Is(c.want, context.DeadlineExceeded)
	switch {
	case waits:
		c.mustWait(p.m.String())
		return
	case c.waits():
		p.fatalf("Acquire(%d) waits, want it to end (%v)", c.n, c.want)
	case c.want == nil:
		if c.err != nil {
			p.fatalf("Acquire(%d) %v, want it granted", c.n, c)
		}
		p.wantPermits(c.lease, c.n, "Acquire")
		p.hold(&holding{Lease: c.lease, at: c.at, resets: p.resets, released: c.due.After(c.at)})
	case !errors.Is(c.err, c.want), unchanged && c.err != c.want: //nolint:errorlint // unchanged is the rule
		p.fatalf("Acquire(%d) %v, want: %v", c.n, c, c.want)
	default:
		p.matches(c.lease, c.err, "Acquire")
		p.wantReason(c)
	}
	p.inspect(c.lease)
}

// wantReason expects core's reason phrases from a limiter that uses one for a failed TryAcquire.
// Another limiter has phrases of its own, as a view that core.WithReason made.
func (p *play) wantReason(c *call) {
	got, ok := core.ReasonPhrase.From(c.lease)
	if ok && p.phrase == "permits exhausted" && c.reason != "" && got != c.reason && (!p.m.holds || !p.m.timed) {
		p.fatalf("ReasonPhrase of an Acquire: %q, want %q", got, c.reason)
	}
}

func (p *play) wantPermits(l core.Lease, n int, what string) {
	if !l.Acquired() || l.Permits() != n {
		p.fatalf("%s: a lease of %d permits, acquired %v, want %d", what, l.Permits(), l.Acquired(), n)
	}
}
