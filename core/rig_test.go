package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

var ways = backdoor.Core[core.Limiter, core.Lease]()

// everything is what all limiters of core are.
type everything interface {
	core.Limiter
	core.Reporter
	core.Idler
	io.Closer
}

// rig plays the same operations on a limiter and on its naive model, in a bubble, and
// compares all that can be seen.
type rig struct {
	t        *testing.T
	real     everything
	model    *naive
	name     string
	update   func(limit, queueLimit int, order core.QueueOrder, step byte)
	calendar bool  // no reservations: their windows may be skipped, as nothing looks at the clock on the wall
	even     bool  // only even instants, so that odd deadlines never meet a grant
	unit     int64 // of all times, in nanoseconds
	grain    int   // of all permits
	start    time.Time
	grants   []granted
	waiting  []*waitingPair
	step     int
	said     string
	certain  int // grants with a higher id: no update and no refund came since
	updated  int // no update came since
	back     int // grants with a higher id: no GiveBack came since
	ticks    int // of a bucket, when GiveBack came
}

type granted struct {
	real     core.Lease
	id, n    int
	at       int64
	released bool
}

// A waitingPair is a call of Acquire, or a reservation, which nothing tells that its permits have come.
type waitingPair struct {
	cancel   context.CancelFunc
	model    *naiveWaiter
	reserved bool
	done     atomic.Bool
	lease    core.Lease
	err      error
	at       time.Duration
	seen     bool
}

func (r *rig) say(format string, args ...any) {
	r.step++
	r.said = fmt.Sprintf("step %d at %v: %s", r.step, time.Since(r.start), fmt.Sprintf(format, args...))
	if testing.Verbose() {
		r.t.Log(r.said)
	}
}

// operations plays a byte-coded story: each operation is a byte, and one more.
func (r *rig) operations(story []byte) {
	r.start = time.Now()
	for ; len(story) >= 2; story = story[2:] {
		r.operation(story[0], story[1])
		r.settle()
	}
	r.end()
}

func (r *rig) operation(op, arg byte) {
	n := (int(arg)%(r.model.limit/r.grain+3) - 1) * r.grain
	switch op % 16 {
	case 0, 1:
		r.say("TryAcquire(%d)", n)
		r.compareLease(r.real.TryAcquire(n), r.model.tryAcquire(n))
	case 2:
		if arg >= 128 {
			r.reserve(n)
			return
		}
		r.say("TryAcquire(0)")
		r.compareLease(r.real.TryAcquire(0), r.model.tryAcquire(0))
	case 3, 4, 5:
		r.acquire(n, flowOf(op), 0, op%16 == 5 && arg >= 128)
	case 6:
		r.acquire(n, flowOf(op), time.Duration(arg/4)*2+1, false)
	case 7:
		if arg < 128 {
			r.acquire(0, flowOf(op), 0, false)
		} else {
			r.acquire(0, flowOf(op), time.Duration(arg-128)*2+1, false)
		}
	case 8:
		r.cancel(int(arg))
	case 9:
		r.release(int(arg))
	case 10:
		r.settleGrant(int(arg), 0)
	case 12:
		r.settleGrant(int(arg)%16, int(arg)/16)
	case 11:
		r.sleep(int64(arg))
	case 13:
		if arg < 128 {
			r.sleep(int64(arg))
		} else {
			r.giveBack(n)
		}
	case 14:
		r.look(arg)
	case 15:
		r.change(arg)
	}
}

// flowOf returns the flow of an operation's request.
func flowOf(op byte) core.Flow {
	i := int(op / 16)
	f := core.Flow{Key: string(rune('a' + i%3)), Weight: []int{2, 5, 0}[i%3], Priority: i / 3 % 2}
	if i > 11 {
		f.Weight = 1
	}
	return f
}

// acquire asks for permits; beyond: as the primitives of this module do, whatever the queue limit is.
func (r *rig) acquire(n int, flow core.Flow, timeout time.Duration, beyond bool) {
	r.say("Acquire(%d) of %+v within %v, beyond the queue limit %v", n, flow, timeout, beyond)
	ctx, cancel := context.WithCancel(core.WithFlow(r.t.Context(), flow))
	deadline := int64(naiveNever)
	if timeout > 0 && r.even {
		at := r.model.now + int64(timeout)*r.unit
		if at%2 == 0 {
			at++
		}
		if w, ok := r.model.acct.(*naiveWindow); !ok || w.startOf(w.segment(at)) != at {
			deadline = at
			cancel()
			ctx, cancel = context.WithDeadline(core.WithFlow(r.t.Context(), flow), r.start.Add(time.Duration(at)))
		}
	}
	p := &waitingPair{cancel: cancel, model: r.model.acquire(n, flow, deadline, beyond)}
	r.waiting = append(r.waiting, p)
	go func() {
		if beyond {
			p.lease, p.err = waiting(ctx, r.real, n)
		} else {
			p.lease, p.err = r.real.Acquire(ctx, n)
		}
		p.at = time.Since(r.start)
		p.done.Store(true)
	}()
}

// reserve makes a reservation. Its delay is the time that a request of the same permits would wait.
func (r *rig) reserve(n int) {
	l, ok := r.real.(core.Reserver)
	if !ok || n == 0 || r.model.manual || r.calendar || r.model.order == core.FairShare {
		return
	}
	r.say("Reserve(%d)", n)
	want := r.model.now
	if r.model.refuse(n) == nil {
		want = r.model.due(n, nil)
	}
	w := r.model.acquire(n, core.Flow{}, naiveNever, false)
	lease := l.Reserve(n)
	delay, ok := core.Delay.From(lease)
	if w.answer != nil {
		require.Equal(r.t, w.answer.err == nil, ok, r.said)
		require.Zero(r.t, delay, r.said)
		r.compareLease(lease, w.answer)
		return
	}
	require.True(r.t, ok, r.said)
	require.Equal(r.t, want-r.model.now, int64(delay), r.said)
	refund := func() { lease.Refund() }
	r.waiting = append(r.waiting, &waitingPair{cancel: refund, model: w, reserved: true})
}

func (r *rig) cancel(i int) {
	var open []*waitingPair
	for _, p := range r.waiting {
		if !p.seen {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		r.say("Acquire, done")
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		n := max(i%4, 0)
		l, err := r.real.Acquire(ctx, n)
		require.Equal(r.t, context.Canceled, err, r.said)
		require.Equal(r.t, err, l.Err(), r.said)
		return
	}
	p := open[i%len(open)]
	r.say("cancel Acquire(%d)", p.model.n)
	r.model.cancel(p.model)
	p.cancel()
}

func (r *rig) release(i int) {
	if len(r.grants) == 0 {
		return
	}
	g := &r.grants[i%len(r.grants)]
	r.say("release %d, again %v", g.n, g.released)
	g.real.Release()
	if _, held := r.model.acct.(naiveHeld); held && !g.released {
		g.released = true
		r.model.give(g.id, g.n, 0, g.at)
	}
}

// settleGrant settles a grant to more, to less or to nothing, and finds that the old lease of a
// concurrency limiter is spent.
func (r *rig) settleGrant(i, units int) {
	if len(r.grants) == 0 {
		return
	}
	g := &r.grants[i%len(r.grants)]
	n := units * r.grain
	_, held := r.model.acct.(naiveHeld)
	switch {
	case g.n == 0 && n > 0 && r.model.acct.taken() < math.MaxInt/4:
		r.chargeNothing(g.real, n)
		return
	case g.released && !held: // each call counts
		return
	case g.n == 0 || !g.released && n == g.n || !g.released && n < g.n && !r.settlesAlone():
		return
	}
	r.say("settle %d to %d, again %v", g.n, n, g.released)
	before := r.real.Available()
	settled := g.real.Settle(n)
	given := r.real.Available() - before
	if g.released {
		require.Zero(r.t, given, r.said)
		return
	}
	require.True(r.t, settled.Acquired(), r.said)
	require.Equal(r.t, n, settled.Permits(), r.said)
	left, _ := core.Remaining.From(g.real)
	still, _ := core.Remaining.From(settled)
	require.Equal(r.t, left, still, r.said)
	if n > g.n {
		r.model.change(func() { r.model.acct.take(r.model.now, g.id, n-g.n) })
	} else {
		r.compareGiven(g, n, given)
	}
	spent := g.real
	g.real, g.n, g.released = settled, n, n == 0
	before = r.real.Available()
	if held {
		spent.Refund()
	}
	spent.Release()
	require.Equal(r.t, before, r.real.Available(), "%s: spent", r.said)
}

// giveBack returns what no lease is known of.
func (r *rig) giveBack(n int) {
	l, ok := r.real.(interface{ GiveBack(permits int) })
	if !ok {
		return
	}
	r.say("GiveBack(%d)", n)
	l.GiveBack(n)
	if n <= 0 {
		return
	}
	r.model.giveAny(n)
	r.certain, r.back = r.model.ids, r.model.ids
	if b, ok := r.model.acct.(*naiveBucket); ok {
		r.ticks = b.ticks
	}
}

// chargeNothing settles a lease of zero permits up. The permits are charged as a grant of now, each time
// that it is settled.
func (r *rig) chargeNothing(l core.Lease, n int) {
	r.say("settle nothing to %d", n)
	settled := l.Settle(n)
	require.True(r.t, settled.Acquired(), r.said)
	require.Equal(r.t, n, settled.Permits(), r.said)
	r.model.ids++
	id := r.model.ids
	r.model.change(func() { r.model.acct.take(r.model.now, id, n) })
	r.grants = append(r.grants, granted{real: settled, id: id, n: n, at: r.model.now})
}

// settlesAlone reports whether it can be seen what a limiter returns: no request waits for it, and
// there is no debt.
func (r *rig) settlesAlone() bool {
	_, held := r.model.acct.(naiveHeld)
	return held || len(r.model.queue)+len(r.model.probes) == 0 && r.model.acct.taken() <= r.model.limit
}

// compareGiven compares what came back when a grant was settled to n with what may.
func (r *rig) compareGiven(g *granted, n, given int) {
	most := r.model.acct.most(g.id, g.n-n, g.at)
	if b, ok := r.model.acct.(*naiveBucket); ok && g.id <= r.back {
		// GiveBack may have returned this grant's tokens or those of others: what is missing may come back until
		// the next tick, and nothing after that.
		if most = min(g.n-n, b.lack); b.ticks > r.ticks {
			most = 0
		}
	}
	_, window := r.model.acct.(*naiveWindow)
	_, held := r.model.acct.(naiveHeld)
	switch {
	case held:
		given = g.n - n // there may be waiters
	case window && g.id > r.updated, g.id > r.certain && g.at == r.model.now:
		require.Equal(r.t, min(most, g.n-n), given, r.said)
	default:
		require.GreaterOrEqual(r.t, given, 0, r.said)
		require.LessOrEqual(r.t, given, most, r.said)
	}
	if given > 0 {
		r.certain = r.model.ids
	}
	r.model.give(g.id, given, n, g.at)
}

func (r *rig) sleep(d int64) {
	if d%5 == 0 {
		d *= 7
	}
	if r.even {
		d &^= 1
	}
	d *= r.unit
	r.say("sleep %d", d)
	time.Sleep(time.Duration(d))
	// Waiters may have been woken by now, and the limiter not yet asked.
	synctest.Wait()
	r.model.advance(r.model.now + d)
}

func (r *rig) look(arg byte) {
	r.say("look %d", arg%4)
	switch arg % 4 {
	case 0:
		require.Equal(r.t, r.model.statistics(), r.real.Statistics(), r.said)
	case 1:
		require.Equal(r.t, r.model.available(), r.real.Available(), r.said)
	case 2:
		d, idle := r.real.IdleFor()
		want, wantIdle := r.model.idleFor()
		require.Equal(r.t, wantIdle, idle, r.said)
		if _, held := r.model.acct.(naiveHeld); held {
			require.LessOrEqual(r.t, d, want, r.said)
		} else {
			require.Equal(r.t, want, d, r.said)
		}
	case 3:
		if l, ok := r.real.(core.Replenisher); ok {
			back := r.model.tryReplenish()
			require.Equal(r.t, back, l.TryReplenish(), r.said)
			if back { // what came may have been an older grant's, even at its instant
				r.certain = r.model.ids
			}
			require.Equal(r.t, !r.model.manual, l.AutoReplenishing(), r.said)
		}
	}
}

func (r *rig) change(arg byte) {
	if arg == 255 {
		r.say("close")
		require.NoError(r.t, r.real.Close())
		r.model.close()
		return
	}
	if r.model.closed {
		return
	}
	if l, ok := r.real.(core.Resetter); ok && arg%16 == 14 {
		r.say("reset")
		l.Reset()
		r.model.reset()
		r.certain, r.updated = r.model.ids, r.model.ids
		return
	}
	limit := (int(arg)%11 + 1) * r.grain
	queueLimit := int(arg) / 11 % 9 * r.grain
	order := core.QueueOrder(arg % 3)
	r.say("update to %d, queue %d, %v arg %d", limit, queueLimit, order, arg)
	r.update(limit, queueLimit, order, arg)
	r.certain, r.updated = r.model.ids, r.model.ids
}

// settle waits until all goroutines have come to rest, and compares those that wait.
func (r *rig) settle() {
	synctest.Wait()
	rest := r.waiting[:0]
	for _, p := range r.waiting {
		if p.reserved {
			if p.model.answer == nil {
				rest = append(rest, p)
			}
			continue
		}
		require.Equal(r.t, p.model.answer != nil, p.done.Load(), "%s: Acquire(%d) decided", r.said, p.model.n)
		if !p.done.Load() {
			rest = append(rest, p)
			continue
		}
		p.seen = true
		p.cancel()
		require.Equal(r.t, p.model.answer.at, int64(p.at), "%s: Acquire(%d) at", r.said, p.model.n)
		if p.err == nil {
			require.NoError(r.t, p.model.answer.err, r.said)
		} else {
			require.ErrorIs(r.t, p.err, p.lease.Err(), r.said)
		}
		r.compareLease(p.lease, p.model.answer)
	}
	r.waiting = rest
}

func (r *rig) compareLease(l core.Lease, a *answer) {
	r.t.Helper()
	require.Equal(r.t, a.err == nil, l.Acquired(), "%s: acquired", r.said)
	if a.err == nil {
		require.Equal(r.t, a.n, l.Permits(), r.said)
		require.NoError(r.t, l.Err(), r.said)
		r.grants = append(r.grants, granted{real: l, id: a.id, n: a.n, at: a.at, released: a.n == 0})
	} else {
		require.Zero(r.t, l.Permits(), r.said)
		require.ErrorIs(r.t, l.Err(), a.err, r.said)
	}
	retry, ok := core.RetryAfter.From(l)
	require.Equal(r.t, a.retry > 0, ok, "%s: has RetryAfter", r.said)
	require.Equal(r.t, a.retry, int64(retry), "%s: RetryAfter", r.said)
	reason, _ := core.ReasonPhrase.From(l)
	require.Equal(r.t, a.reason, reason, r.said)
	if a.limit > 0 {
		limit, _ := core.PermitLimit.From(l)
		require.Equal(r.t, a.limit, limit, r.said)
		name, _ := core.LimiterName.From(l)
		require.Equal(r.t, r.name, name, r.said)
	}
	if a.remaining >= 0 {
		remaining, ok := core.Remaining.From(l)
		require.True(r.t, ok, "%s: has Remaining", r.said)
		require.Equal(r.t, a.remaining, remaining, "%s: Remaining", r.said)
		reset, ok := core.ResetAfter.From(l)
		require.Equal(r.t, a.reset >= 0, ok, "%s: has ResetAfter", r.said)
		require.Equal(r.t, max(a.reset, 0), int64(reset), "%s: ResetAfter", r.said)
	}
	if a.reason != "" {
		var e *core.RejectedError
		require.ErrorAs(r.t, l.Err(), &e, r.said)
		require.Equal(r.t, [...]any{r.name, a.n, a.reason, time.Duration(a.retry)},
			[...]any{e.Limiter, e.Permits, e.Reason, e.RetryAfter}, r.said)
		require.Equal(r.t, a.reason == "deadline too soon", errors.Is(e, context.DeadlineExceeded), r.said)
	}
}

// end cancels who waits, lets all time pass, gives everything back, and finds the limiter
// whole.
func (r *rig) end() {
	r.say("the end")
	for _, p := range r.waiting {
		if p.model.answer != nil {
			continue // served as another left
		}
		r.model.cancel(p.model)
		p.cancel()
		synctest.Wait() // one by one: the order decides whom it serves
	}
	r.settle()
	r.look(0)
	for i := range r.grants {
		r.settleGrant(i, 0)
		r.release(i)
		r.settle()
	}
	require.Empty(r.t, r.waiting)
	r.look(0)
	r.look(2)
	if !r.model.closed {
		for range 100 {
			r.sleep(1 << 14)
			r.look(3)
			if r.model.acct.taken() == 0 {
				break
			}
		}
		require.Equal(r.t, r.model.limit, r.real.Available(), r.said)
		l := r.real.TryAcquire(r.model.limit)
		require.True(r.t, l.Acquired(), r.said)
		l.Release()
	}
	require.NoError(r.t, r.real.Close())
}

// waiting is Acquire of a request that waits beyond QueueLimit.
func waiting(ctx context.Context, l core.Limiter, n int) (core.Lease, error) {
	lease, _, err := ways.Acquire(ctx, l, n, nil, backdoor.Beyond)
	return lease, err
}
