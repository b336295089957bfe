package limitertest

import (
	"context"
	"errors"
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

// playAll returns the errors of all plays, and the rules that the plays were about.
func (f *facts) playAll(t *testing.T) (errs []ruleError, met map[string]bool) {
	t.Helper()
	met = map[string]bool{}
	n := plays
	if f.Lag > 0 || f.RealTime {
		n /= 3 // each call asks a server
	}
	for seed := range uint64(n) {
		r := rule{name: "a play", check: func(s *subject) {
			s.met = met
			p := &play{subject: s, m: newModel(f), random: rand.New(rand.NewPCG(seed, 0))}
			p.run()
		}}
		errs = append(errs, r.errors(t, f)...)
	}
	return errs, met
}

func (p *play) run() {
	p.about("available is what can be taken")
	p.compare()
	if !p.unlimited() && p.random.IntN(2) > 0 { // most rules are about a limiter with little left
		p.try(p.Limit - p.random.IntN(min(3, p.Limit)))
	}
	p.steps(steps)
	if !p.over {
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
	switch k := p.random.IntN(100); {
	case k < 20:
		p.try(p.permits())
	case k < 40:
		p.acquire(p.permits())
	case k < 43:
		p.fillQueue()
	case k < 55:
		p.release()
	case k < 60:
		p.cancel(false)
	case k < 65:
		p.cancel(true)
	case k < 72:
		p.refund()
	case k < 84:
		p.settle()
	case k < 88:
		p.update()
	case k < 90:
		p.reset()
	case k < 93:
		p.turnGate()
	default:
		p.later()
	}
}

// skips reports whether the rule that the next call is about is not checked.
func (p *play) skips() bool { return slices.Contains(p.Skip, p.rule) }

// permits returns a number of permits at which the limiter's decision may change.
func (p *play) permits() int {
	left, room := p.m.available(), p.m.room-p.m.queued()
	n := []int{0, 1, 1, 2, left, left + 1, room, room + 1, p.m.room + 1, p.m.limit, 1 + p.random.IntN(min(p.m.limit, 1<<20))}
	return min(max(n[p.random.IntN(len(n))], 0), p.m.limit)
}

func (p *play) try(n int) {
	p.about(p.m.admission(n))
	l, fits := p.l.TryAcquire(n), p.m.fits(n)
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
		p.about("errors agree with their leases")
		p.fatalf("TryAcquire(%d) %s: %v, want an error that is core.ErrRejected", n, &p.m, err)
	default:
		p.m.rejected++
		p.phrase, _ = core.ReasonPhrase.From(l)
	}
	p.compare()
}

// acquire calls Acquire, unless it would wait where waits cannot be seen.
func (p *play) acquire(n int) {
	if len(p.m.waiting) >= maxCalls {
		return
	}
	fits := p.m.fits(n)
	if fits {
		p.about(p.m.admission(n))
	} else {
		p.about(p.m.queueing(n))
	}
	if p.RealTime {
		if !fits && !p.m.closed && (n == 0 || p.m.queued() <= p.m.room-n || p.m.newest) {
			return
		}
		p.decide(p.acquiresNow(p.ctx, n, p.m.String()))
		return
	}
	p.decide(p.start(n, 0))
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
	for free := p.m.room - p.m.queued(); free > 0; free = p.m.room - p.m.queued() {
		p.about("the queue counts permits")
		p.decide(p.start(min(free, p.m.limit), 0))
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

// release releases a lease, or one that has been released before, and a copy of it.
func (p *play) release() {
	h := p.pick()
	switch {
	case h == nil, p.m.holds && p.m.timed && !p.m.closed:
		return // of a chain, which has two accounts, later releases all
	case !p.m.holds:
		p.about("a release gives a rate limiter nothing back")
	case h.spent:
		p.about("a spent lease gives nothing back")
	case h.released:
		p.about("a lease is released once")
	default:
		p.releases(h)
		return
	}
	h.released = true
	h.With(copied.With(1)).Release()
	h.Release()
	p.compare()
}

// releases gives a lease back whose permits are held.
func (p *play) releases(h *holding) {
	h.released = true
	p.m.held -= h.Permits()
	p.about(p.adding(p.m.serving("a lease is released once")))
	h.Release()
	h.Release()
	h.With(copied.With(1)).Release()
	p.compare()
}

// adding returns the rule, unless there has been a debt.
func (p *play) adding(rule string) string {
	switch {
	case p.owed && len(p.m.waiting) > 0:
		return "a debt is paid before a waiter is served"
	case p.owed:
		return "settling adds up"
	}
	return rule
}

// cancel ends the context of one waiter, or of several, before all permits are released.
func (p *play) cancel(several bool) {
	if len(p.m.waiting) == 0 {
		return
	}
	rule, queued := "a cancelled waiter keeps nothing", p.m.queued()
	gone := slices.Clone(p.m.waiting)
	if several = several && p.m.available() == 0; several { // otherwise the first to go may serve the next
		gone = slices.DeleteFunc(gone, func(c *call) bool { return c.n == 0 })
	} else {
		gone = []*call{gone[p.random.IntN(len(gone))]}
	}
	for _, c := range gone {
		p.m.leave(c)
		c.expect(context.Canceled)
		if !several && p.m.queued() < queued {
			rule = "cancelling makes room in the queue"
		}
	}
	h := p.pick()
	if several = several && !p.m.timed && h != nil && !h.released && !h.spent; several {
		h.released = true
		p.m.held -= h.Permits()
	}
	was := len(p.m.waiting)
	p.m.serve()
	if len(p.m.waiting) < was && !several {
		rule = "cancelling serves a waiter that now fits"
	}
	p.about(rule)
	for _, c := range gone {
		c.cancel()
	}
	if several {
		h.Release() // before the waiters have seen that their contexts are done
	}
	p.compare()
}

// refund refunds a lease.
func (p *play) refund() {
	h := p.pick()
	if h == nil || !p.is(Refunder) || p.unlimited() || p.m.closed || p.uncertain(h) {
		return
	}
	n, rule := p.back(h, h.Permits(), "a refund undoes the grant")
	switch {
	case h.resets != p.resets:
	case h.spent:
		rule = "a spent lease gives nothing back"
	case h.released && p.m.holds:
		rule = "a refund after the release gives nothing back twice"
	case !p.fresh(h):
		rule = "a late refund gives nothing back twice"
	case len(p.m.waiting) > 0 && n > 0:
		rule = "a refund serves a waiter"
	}
	h.spent, h.released = true, true
	p.about(p.adding(rule))
	p.m.take(-n)
	p.m.serve()
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

// fresh reports whether the lease was granted at this instant.
func (p *play) fresh(h *holding) bool { return p.m.holds || h.at.Equal(time.Now()) && !p.RealTime }

// uncertain reports whether the model cannot predict how many permits come back of a lease that holds nothing: of an older
// one a part may come back, and each refund of one counts.
func (p *play) uncertain(h *holding) bool {
	return !p.m.holds && (h.spent || h.released || !p.fresh(h) && (p.Manual || p.owed || h.at.Add(p.Refill).After(time.Now())))
}

// back returns how many of n permits of the lease come back if they are not used, and the rule.
func (p *play) back(h *holding, n int, rule string) (int, string) {
	switch {
	case h.resets != p.resets && !p.m.holds:
		return 0, "a reset makes a rate limiter as new"
	case h.spent, h.released && p.m.holds, !p.fresh(h):
		return 0, rule
	}
	return n, rule
}

// settle settles a lease for another number of permits.
func (p *play) settle() {
	if h := p.pick(); h != nil {
		n := []int{0, 1, h.Permits() - 1, h.Permits(), h.Permits() + 1, more(p.m.limit, 2), -1}
		p.settleTo(h, n[p.random.IntN(len(n))])
	}
}

func (p *play) settleTo(h *holding, n int) {
	if !p.is(Settler) || p.uncertain(h) || p.m.holds && p.m.timed && h.released {
		return
	}
	if h.spent || h.released && p.m.holds {
		p.about("a spent lease gives nothing back")
		p.comesBack(h.Lease, n, "a spent lease")
		p.compare()
		return
	}
	by, wanted := max(n, 0)-h.Permits(), max(n, 0)
	rule := "settling for more takes at once"
	if by < 0 {
		var back int
		back, rule = p.back(h, -by, "settling for less gives back the difference")
		if back == 0 && by < 0 && h.resets == p.resets {
			rule = "a late settlement gives nothing back twice"
		}
		by = -back
	}
	if by > math.MaxInt-p.m.taken() || by > 0 && !p.m.holds && (h.resets != p.resets || !p.fresh(h)) {
		return // of an older lease that is settled for more, a part is as a new one
	}
	debt := p.m.inDebt()
	p.m.take(by)
	if p.m.inDebt() {
		p.owed = true
	}
	waited := len(p.m.waiting)
	p.m.serve()
	switch {
	case debt && waited > 0:
		rule = "a debt is paid before a waiter is served"
	case p.m.closed:
		rule = "a lease can be settled after close"
	case by < 0 && waited > len(p.m.waiting):
		rule = "settling for less serves a waiter"
	case by < 0:
		rule = p.adding(rule)
	}
	p.about("a settled lease replaces the first")
	if p.m.closed {
		p.about(rule)
	}
	settled := p.settles(h.With(copied.With(7)), n)
	p.wantPermits(settled, wanted, "Settle")
	if wanted == h.Permits() {
		h.Lease = settled // which may be the lease itself
	} else {
		h.spent = true
		p.hold(&holding{Lease: settled, at: h.at, resets: h.resets, released: h.released})
	}
	p.about(rule)
	p.compareWaiters()
	p.compareCounts("settling counts in no statistic")
	if !p.m.inDebt() {
		return
	}
	switch p.random.IntN(3) { // rare calls about debts
	case 0:
		p.settleTo(p.holdings[len(p.holdings)-1], wanted-1)
	case 1:
		p.reset()
	}
}

// update changes the limit, or tries to.
func (p *play) update() {
	if p.Update == nil || p.unlimited() {
		return
	}
	limit := []int{-1, 0, p.m.limit + 1, p.m.limit + 3, p.m.limit - 1, 1, p.Limit}[p.random.IntN(7)]
	if limit < 1 || p.m.closed {
		p.about("a bad update changes nothing")
		if p.skips() {
			return
		}
		switch err := p.Update(p.l, limit); {
		case err == nil:
			p.fatalf("Update to a limit of %d (closed: %v): nil, want an error", limit, p.m.closed)
		case limit > 0 && !errors.Is(err, core.ErrClosed):
			p.fatalf("Update after Close: %v, want core.ErrClosed", err)
		}
		p.compare()
		return
	}
	if p.RealTime || p.m.timed && len(p.m.waiting) > 0 {
		return
	}
	rule, waited, debt := "an update keeps what is taken", len(p.m.waiting), p.m.inDebt()
	was := p.m.limit
	p.m.limit = limit
	for _, c := range slices.Clone(p.m.waiting) {
		if c.n > limit {
			p.m.leave(c)
			c.expect(core.ErrPermitsExceedLimit)
			rule = "an update refuses a waiter that no longer fits"
		}
	}
	if left := len(p.m.waiting); !p.m.timed {
		p.m.serve()
		if len(p.m.waiting) < left {
			rule = "an update serves a waiter that now fits"
		}
	}
	if debt {
		rule = "an update keeps a debt"
	}
	p.about(rule)
	p.updates(limit)
	if p.m.timed && waited == 0 { // a bucket keeps the tokens that it has, a window counts what is taken
		taken := p.m.spent
		if kept := max(taken+limit-was, 0); p.l.Available() == max(limit-max(kept, p.m.held), 0) {
			p.m.spent = kept
		}
		p.compare()
		p.over = true // which of the two it is may not show
		return
	}
	p.compare()
}

// reset resets a rate limiter.
func (p *play) reset() {
	if !p.is(Resetter) || !p.m.timed || p.m.closed || p.m.holds && len(p.m.waiting) > 0 {
		return
	}
	rule, waited := "a reset makes a rate limiter as new", len(p.m.waiting)
	p.m.spent, p.owed = 0, false
	p.resets++
	p.m.serve()
	if len(p.m.waiting) < waited {
		rule = "a reset serves a waiter"
	}
	p.about(rule)
	p.l.(core.Resetter).Reset()
	p.compareWaiters()
	p.compareCounts(rule)
	p.over = p.m.holds // of what was granted before, the slot comes back, and the rate does not
}

// turnGate opens or shuts the limiter.
func (p *play) turnGate() {
	if p.Gate == nil || p.m.closed {
		return
	}
	p.m.shut = !p.m.shut
	p.about(p.m.serving("available is what can be taken"))
	p.gate(!p.m.shut)
	p.compare()
}

// close closes the limiter.
func (p *play) close() {
	if !p.is(Closer) {
		return
	}
	rule := "close refuses from then on"
	for _, c := range p.m.waiting {
		c.expect(core.ErrClosed)
		rule = "close ends every wait"
	}
	p.m.waiting = nil
	p.m.closed = true
	p.about(rule)
	p.closes()
	p.compare()
	p.closes()
}

// later lets time pass: all the time until everything is back, or a part of it.
func (p *play) later() {
	switch {
	case p.RealTime || p.m.closed || p.unlimited():
	case !p.m.timed:
		p.about("available is what can be taken")
		p.pass(time.Second)
		p.compare()
	case p.m.holds || p.random.IntN(2) == 0:
		p.everythingBack()
	default:
		p.about("a waiter is served on time")
		if len(p.m.waiting) > 1 {
			p.about("the queue is served in order")
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
		p.releaseAll()
	}
	p.refill()
	p.catchUp()
	if full && p.m.available() < p.m.limit {
		p.fatalf("Available() a Refill after the latest grant: %d, want %d", p.m.available(), p.m.limit)
	}
	switch { // of leases whose permits have come back
	case p.over:
	case p.random.IntN(2) == 0:
		p.settle()
	default:
		p.refund()
	}
}

func (p *play) releaseAll() {
	for _, h := range p.holdings {
		h.Release()
		h.released = true
	}
	p.m.held = 0
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

// compare wants the limiter and the model to agree.
func (p *play) compare() {
	p.compareWaiters()
	p.compareCounts("statistics add up")
}

// compareWaiters wants them to agree about which requests wait, and how many permits are available.
func (p *play) compareWaiters() {
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
}

// compareCounts wants the statistics to count the grants and the rejections.
func (p *play) compareCounts(rule string) {
	st, ok := p.counts()
	if !ok {
		return
	}
	about := p.rule
	p.about(rule)
	if st.Granted != p.m.granted || st.Rejected != p.m.rejected || st.Limit != p.m.limit {
		p.fatalf("Statistics(): %v, want %d granted and %d rejected, and a limit of %d", st, p.m.granted, p.m.rejected, p.m.limit)
	}
	p.about(about)
}

// agree wants a call to wait, or to have ended as the model predicts.
func (p *play) agree(c *call, waits bool) {
	switch {
	case waits:
		c.mustWait(p.m.String())
		return
	case c.waits():
		if p.m.room > 0 && errors.Is(c.want, core.ErrRejected) && !slices.ContainsFunc(p.live, func(c *call) bool { return !c.waits() }) {
			p.about("the queue counts permits") // none was rejected
		}
		p.fatalf("Acquire(%d) waits, want it to end (%v)", c.n, c.want)
	case c.want == nil:
		if c.err != nil {
			p.fatalf("Acquire(%d) %v, want it granted", c.n, c)
		}
		p.wantPermits(c.lease, c.n, "Acquire")
		p.hold(&holding{Lease: c.lease, at: c.at, resets: p.resets})
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
	about := p.rule
	p.about("reason phrases are those of core")
	got, ok := core.ReasonPhrase.From(c.lease)
	if ok && p.phrase == "permits exhausted" && c.reason != "" && got != c.reason && (!p.m.holds || !p.m.timed) {
		p.fatalf("ReasonPhrase of an Acquire: %q, want %q", got, c.reason)
	}
	p.about(about)
}

func (p *play) wantPermits(l core.Lease, n int, what string) {
	if !l.Acquired() || l.Permits() != n {
		p.fatalf("%s: a lease of %d permits, acquired %v, want %d", what, l.Permits(), l.Acquired(), n)
	}
}
