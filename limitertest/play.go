package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A play is a random sequence of calls to a limiter. After each call the limiter and a model must
// agree: which requests are granted, rejected or wait, how many permits are available, and what the statistics
// count. The first difference ends the play and is an error of the rule that the call is about.
type play struct {
	*subject
	m      model
	random *rand.Rand

	live     []*call // waiting when last compared, or new
	holdings []*holding
	owed     bool // there has been a debt
	resets   int
	phrase   string // of failed tries
	over     bool   // the model cannot predict the next calls
}

// holding is a lease of a play.
type holding struct {
	core.Lease

	at       time.Time // of the grant
	resets   int       // before the grant
	spent    bool      // settled or refunded
	released bool
}

const (
	plays    = 60
	steps    = 40
	maxCalls = 20 // that wait in a play, except where a step fills the queue
)

// play runs all plays, and remembers their errors and the rules that they were about.
func (f *facts) play(t *testing.T) {
	t.Helper()
	n := plays
	if f.Lag > 0 || f.RealTime {
		n /= 3 // each call asks a server
	}
	for seed := range uint64(n) {
		r := rule{name: "a play", check: func(s *subject) {
			p := &play{subject: s, m: newModel(f), random: rand.New(rand.NewPCG(seed, 0))}
			p.run()
		}}
		f.played = append(f.played, r.errors(t, f)...)
	}
}

func (p *play) run() {
	p.about(ruleAvailable)
	p.compare()
	if !p.unlimited() && p.random.IntN(2) > 0 { // most rules are about a limiter with little left
		p.try(p.Limit - p.random.IntN(min(3, p.Limit)))
	}
	p.steps(steps)
	if !p.over && !p.reserved() {
		p.close()
	}
	p.steps(steps / 4)
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
	case k < 20:
		p.try(p.permits())
	case k < 40:
		p.acquire(p.permits())
	case k < 43:
		p.fillQueue()
	case k < 48:
		p.invalid()
	case k < 53:
		p.reserve(p.permits())
	case k < 61:
		p.release()
	case k < 65:
		p.cancel(false)
	case k < 69:
		p.cancel(true)
	case k < 75:
		p.refund(p.pick())
	case k < 86:
		p.settle()
	case k < 90:
		p.update()
	case k < 92:
		p.reset()
	case k < 94:
		p.turnGate()
	default:
		p.later()
	}
}

// permits returns a number of permits at which the limiter's decision may change.
func (p *play) permits() int {
	left, room := p.m.available(), p.m.room-p.m.queued()
	n := []int{0, 1, 1, 2, left, left + 1, room, room + 1, p.m.room + 1, p.m.limit, 1 + p.random.IntN(min(p.m.limit, 1<<20))}
	return min(max(n[p.random.IntN(len(n))], 0), p.m.limit)
}

func (p *play) try(n int) core.Lease {
	rule, fits := p.m.rule(n), p.m.fits(n)
	if rule == ruleQueue {
		rule = ruleAvailable // a try does not wait
	}
	p.about(rule)
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
		p.about(ruleErrors)
		p.fatalf("TryAcquire(%d) %s: %v, want an error that is core.ErrRejected", n, &p.m, err)
	default:
		p.m.rejected++
		p.phrase, _ = core.ReasonPhrase.From(l)
	}
	p.compare()
	return l
}

// acquire calls Acquire, unless it would wait where waits cannot be seen.
func (p *play) acquire(n int) {
	if len(p.m.waiting) >= maxCalls {
		return
	}
	p.about(p.m.rule(n))
	if !p.RealTime {
		p.decide(p.start(n, 0))
	} else if p.m.fits(n) || p.m.closed || n > 0 && !p.m.newest && p.m.queued() > p.m.room-n {
		p.decide(p.acquiresNow(p.ctx, n, p.m.String()))
	}
}

// decide wants a call to end or wait as the model predicts.
func (p *play) decide(c *call) {
	p.m.acquire(c)
	p.live = append(p.live, c)
	p.compare()
}

// fillQueue has requests wait until no more permits may.
func (p *play) fillQueue() {
	if p.RealTime || p.m.closed || p.unbounded() || p.m.available() > 0 {
		return
	}
	p.about(ruleQueue)
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
	p.about("checks come in order")
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
		p.about("more than the limit is refused for good")
		p.exceeds(p.l.TryAcquire(n).Err(), n, fmt.Sprintf("TryAcquire(%d) %s", n, when))
		c := p.acquiresNow(ctx, n, when)
		p.exceeds(c.err, n, fmt.Sprintf("Acquire(%d) %s", n, when))
		p.matches(c.lease, c.err, "Acquire of more than the limit")
		p.cannotReserve(n, core.ErrPermitsExceedLimit)
	}
	p.compare()
}

// exceeds wants the error to be core.ErrPermitsExceedLimit; and if it has numbers, that
// they are right. The limit may be that of one of a chain's.
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

// pick returns one of the leases, often the newest; nil if there are none.
func (p *play) pick() *holding {
	if len(p.holdings) == 0 {
		return nil
	}
	i := p.random.IntN(2 * len(p.holdings))
	return p.holdings[min(i, len(p.holdings)-1)]
}

// owing returns the rule of a call that changes what is taken, or that of debts if there has been one.
func (p *play) owing(rule string) string {
	if p.owed {
		return ruleDebt
	}
	return rule
}

// stale reports whether the lease was granted before a reset.
func (p *play) stale(h *holding) bool { return !p.m.holds && h.resets != p.resets }

// release releases a lease, or one that has been released before, and a copy of it.
func (p *play) release() {
	h := p.pick()
	if h == nil || p.m.holds && p.m.timed && !p.m.closed {
		return // of a chain, which has two accounts, later releases all
	}
	rule := ruleRelease
	if p.m.holds && !h.spent && !h.released {
		p.m.held -= h.Permits()
		rule = p.owing(p.m.serves(rule))
	}
	h.released = true
	p.about(rule)
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
	p.about(ruleCancel)
	for _, c := range gone {
		c.cancel()
	}
	if several {
		h.Release() // before the waiters have seen that their contexts are done
	}
	p.compare()
}

// changes has the model settle a lease for n permits. It reports whether the model can predict that.
func (p *play) changes(h *holding, n int) bool {
	by, holds := n-h.Permits(), p.m.holds
	fresh := holds || h.at.Equal(time.Now()) && !p.RealTime
	stale := p.stale(h)
	switch {
	case holds && p.m.timed && h.released:
		return false
	case !holds && (h.spent || h.released):
		return false // each counts
	case !fresh && (p.Manual || p.owed || h.at.Add(p.Refill).After(time.Now())):
		return false // a part may come back
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

// refund refunds a lease.
func (p *play) refund(h *holding) {
	if h == nil || !p.is(Refunder) || p.unlimited() || p.m.closed || !p.changes(h, 0) {
		return
	}
	h.spent, h.released = true, true
	p.about(p.owing(ruleRefund))
	if p.stale(h) {
		p.about(ruleReset)
	}
	r := p.l.(core.Refunder)
	r.Refund(h.Lease)
	if p.m.holds {
		r.Refund(h.Lease)
		r.Refund(h.With(copied.With(1)))
	}
	p.compare()
	h.Release()
	p.compare()
}

// settle settles a lease for another number of permits, or one that cannot be settled.
func (p *play) settle() {
	h := p.pick()
	switch {
	case !p.is(Settler):
	case p.random.IntN(5) == 0:
		p.settleOther()
	case h != nil:
		n := []int{0, 1, h.Permits() - 1, h.Permits(), h.Permits() + 1, more(p.m.limit, 2), -1, math.MaxInt}
		p.settleTo(h, n[p.random.IntN(len(n))])
	}
}

// settleOther settles what is not a live grant of this limiter, and wants it back as it is.
func (p *play) settleOther() {
	n := []int{-1, 0, 1, more(p.m.limit, 2)}[p.random.IntN(4)]
	released := false
	foreign := core.Grant(2, func() { released = true })
	p.about("only a live grant can be settled")
	p.comesBack(core.Lease{}, n, "the zero lease")
	p.comesBack(p.l.TryAcquire(-1), n, "a refusal of negative permits")
	p.comesBack(foreign, n, "a lease that another limiter made")
	foreign.Release()
	if !released {
		p.errorf("a lease that another limiter made does not release any more, after it was settled here")
	}
	if !p.m.fits(1) && !p.m.closed {
		p.m.rejected++
		p.comesBack(p.l.TryAcquire(1), n, "a rejection")
	}
	other := p.New()
	defer p.leave(other)
	theirs := other.TryAcquire(1)
	left := other.Available()
	p.comesBack(theirs, n, "a lease of another limiter of the same make")
	if got := other.Available(); got != left {
		p.errorf("Available() of another limiter whose lease was settled here: %d, want %d", got, left)
	}
	theirs.Release()
	p.compare()
}

func (p *play) settleTo(h *holding, n int) {
	if !p.is(Settler) {
		return
	}
	dead, wanted, huge := h.spent || h.released && p.m.holds, max(n, 0), n == math.MaxInt
	if huge && p.unlimited() || !p.changes(h, wanted) {
		return
	}
	p.about(p.owing(ruleSettle))
	if dead {
		p.comesBack(h.Lease, n, "a lease that was settled, refunded or released")
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
	if p.m.inDebt() {
		p.inDebt(p.holdings[len(p.holdings)-1], huge)
	}
}

// inDebt makes calls that are rare with a debt, of which the latest lease is a part.
func (p *play) inDebt(h *holding, huge bool) {
	switch k := p.random.IntN(4); {
	case huge: // what comes back of it is not certain
		if other := p.pick(); other != h && !other.spent && !other.released && p.changes(other, math.MaxInt) {
			p.settles(other.Lease, math.MaxInt)
		}
		p.compare()
		p.try(1)
		p.settles(h.Lease, 1)
		if got := p.l.Available(); got < 0 || got >= p.m.limit {
			p.errorf("Available() after a lease was settled for math.MaxInt, then for 1: %d, want less than %d", got, p.m.limit)
		}
		p.over = true
	case k == 0:
		p.settleTo(h, h.Permits()-1)
	case k == 1:
		p.reset()
	case k == 2:
		p.update()
	}
}

// update changes the limit, or tries to.
func (p *play) update() {
	if p.Update == nil || p.unlimited() {
		return
	}
	limit := []int{-1, 0, p.m.limit + 1, p.m.limit + 3, p.m.limit - 1, 1, p.Limit}[p.random.IntN(7)]
	if limit < 1 || p.m.closed {
		p.badUpdate(limit)
		return
	}
	if p.RealTime || p.m.timed && len(p.m.waiting) > 0 {
		return
	}
	was := p.m.limit
	p.m.limit = limit
	for _, c := range slices.Clone(p.m.waiting) {
		if c.n > limit {
			p.m.leave(c)
			c.expect(core.ErrPermitsExceedLimit)
		}
	}
	p.m.serve()
	p.about(p.owing(ruleUpdate))
	p.updates(limit)
	if p.m.timed { // a bucket keeps the tokens that it has, a window counts what is taken
		kept := max(p.m.spent+limit-was, 0)
		if p.l.Available() == max(limit-max(kept, p.m.held), 0) {
			p.m.spent = kept
		}
		p.over = true // which of the two it is may not show
	}
	p.compare()
}

func (p *play) badUpdate(limit int) {
	p.about("a bad update changes nothing")
	if slices.Contains(p.Skip, p.rule) {
		return
	}
	switch err := p.Update(p.l, limit); {
	case err == nil:
		p.fatalf("Update to a limit of %d (closed: %v): nil, want an error", limit, p.m.closed)
	case limit > 0 && !errors.Is(err, core.ErrClosed):
		p.fatalf("Update after Close: %v, want core.ErrClosed", err)
	}
	p.compare()
}

// reset resets a rate limiter.
func (p *play) reset() {
	if !p.is(Resetter) || !p.m.timed || p.m.closed || p.m.holds && len(p.m.waiting) > 0 {
		return
	}
	p.m.spent, p.owed = 0, false
	p.resets++
	p.m.serve()
	p.about(ruleReset)
	p.l.(core.Resetter).Reset()
	p.compare()
	p.over = p.m.holds // of what was granted before, the slot comes back, and the rate does not
	p.late()
}

// turnGate opens or shuts the limiter.
func (p *play) turnGate() {
	if p.Gate == nil || p.m.closed {
		return
	}
	p.m.shut = !p.m.shut
	p.about(p.m.serves(ruleAvailable))
	p.gate(!p.m.shut)
	p.compare()
}

// close closes the limiter.
func (p *play) close() {
	if !p.is(Closer) {
		return
	}
	for _, c := range p.m.waiting {
		c.expect(core.ErrClosed)
	}
	p.m.waiting = nil
	p.m.closed = true
	p.about(ruleClose)
	p.closes()
	p.compare()
	p.closes()
}

// later lets time pass: all the time until everything is back, or a part of it.
func (p *play) later() {
	switch {
	case p.RealTime || p.m.closed || p.unlimited():
	case !p.m.timed:
		p.about(ruleAvailable)
		p.pass(time.Second)
		p.compare()
	case p.m.holds || p.random.IntN(2) == 0:
		p.everythingBack()
	default:
		p.about("a waiter is served on time")
		if len(p.m.waiting) > 1 {
			p.about(ruleOrder)
		}
		p.pass(time.Duration(p.random.Int64N(int64(p.Refill))))
		p.catchUp()
	}
}

// everythingBack releases all leases and waits until all permits are back.
func (p *play) everythingBack() {
	if p.m.holds && (p.m.inDebt() || len(p.m.waiting) > 0) {
		return
	}
	p.about("automatic replenishment")
	if p.Manual {
		p.about("manual replenishment")
	}
	full := len(p.m.waiting) == 0 && !p.m.inDebt()
	if p.m.holds {
		for _, h := range p.holdings {
			h.Release()
			h.released = true
		}
		p.m.held = 0
	}
	p.refill()
	p.catchUp()
	if full && p.m.available() < p.m.limit {
		p.fatalf("Available() a Refill after the latest grant: %d, want %d", p.m.available(), p.m.limit)
	}
	p.late()
}

// late settles or refunds a lease whose permits have come back, when others have been taken.
func (p *play) late() {
	h := p.pick()
	if h == nil || p.over || p.reserved() {
		return
	}
	if p.random.IntN(4) > 0 {
		p.try(p.m.available())
	}
	if p.random.IntN(2) == 0 {
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
	p.synchronize()
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

// compare wants the limiter and the model to agree about which requests wait, how many permits are available, and
// what the statistics count.
func (p *play) compare() {
	p.synchronize()
	p.live = slices.DeleteFunc(p.live, func(c *call) bool {
		waits := slices.Contains(p.m.waiting, c)
		p.agree(c, waits)
		return !waits
	})
	if got, want := p.l.Available(), p.m.available(); got != want {
		p.fatalf("Available(): %d, want %d", got, want)
	}
	p.queues(p.m.queued(), "after that")
	st, ok := p.counts()
	if !ok {
		return
	}
	defer p.about(p.rule)
	p.about(ruleCounts)
	if st.Granted != p.m.granted || st.Rejected != p.m.rejected || st.Limit != p.m.limit {
		p.fatalf("Statistics(): %v, want %d granted and %d rejected, and a limit of %d", st, p.m.granted, p.m.rejected, p.m.limit)
	}
}

// agree wants a call to wait, or to have ended as the model predicts.
func (p *play) agree(c *call, waits bool) {
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
	case !errors.Is(c.err, c.want):
		p.fatalf("Acquire(%d) %v, want: %v", c.n, c, c.want)
	default:
		p.matches(c.lease, c.err, "Acquire")
		p.wantReason(c)
	}
	p.inspect(c.lease)
}

// wantReason wants core's reason phrases from a limiter that uses one for a failed TryAcquire. Another
// limiter has phrases of its own, as a view that core.WithReason made.
func (p *play) wantReason(c *call) {
	defer p.about(p.rule)
	p.about("reason phrases are those of core")
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
