package redislimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/linked"
)

// engine is what the four limiters share: what is decided without the store, the calls of
// the store, the queue, what is fetched ahead and what is held.
//
// The mutex is a leaf: nobody else's code is called and nothing blocks while it is held.
// What the store is asked is an op. It goes into next, and one goroutine, the runner, makes
// calls of all that is there as long as there is any; see run. So the operations of a
// limiter reach the store in the order in which they were begun.
type engine struct {
	shared  Shared   // with its defaults; no Store: not made by a constructor
	prompt  bool     // the store's Run returns by its context's deadline, whatever happens
	batches *Batches // the store's; nil: it has none
	keys    []string
	channel string // where releases are published
	holder  int64  // tells the leases of this limiter from those of others

	mu     sync.Mutex
	t      *terms
	closed bool

	next   []*op   // what the next call asks
	kick   bool    // and the queue is to be asked for
	runner *runner // nil: nobody calls
	starts *runner // begins once the mutex is free
	spare  *runner // the latest that ended, for the next

	woken []chan struct{} // collects what decideLocked would close; nil: it closes it

	queue    queue
	refusals refusals
	known    known
	looked   time.Time // when Statistics asked last
	played   forecast  // memory for known's
	stock    stock
	breaker  breaker
	news     []error       // of the breaker, for OnState; nil: the store is back
	teller   chan struct{} // closed at the end of the goroutine that tells it; nil: there is none
	leases   leases
	listener listener

	granted  uint64
	rejected uint64

	locals linked.Source // ends the waits in Shared.Local on Close; not guarded
}

// known is what the store said last.
type known struct {
	told     time.Time // zero: nothing
	left     int
	whole    time.Time // all permits are back, if nobody takes more
	forecast *forecast // nil: not known
	at       time.Time // its instants count from here
}

// start makes the engine ready. The shared options are valid.
func (e *engine) start(s Shared, t *terms) {
	e.shared = s.withDefaults()
	if p, ok := s.Store.(interface{ Prompt() bool }); ok {
		e.prompt = p.Prompt()
	}
	if b, ok := s.Store.(interface{ Batches() *Batches }); ok {
		e.batches = b.Batches()
	}
	e.t = t
	base := "{" + s.Key + "}:limit"
	e.keys = []string{base}
	if t.kind == kindConcurrency {
		e.keys = append(e.keys, "{"+s.Key+"}:leases")
		e.holder = rand.Int64() //nolint:gosec // a name, no secret
		e.channel = base + ":released"
	}
	e.known = known{left: t.limit, whole: time.Now()}
	e.leases.since = time.Now()
}

// TryAcquire takes permits if they can be had now. It waits for nobody but the store, for
// [Shared].Budget at most. While somebody in this process waits, a limiter that serves the
// oldest first rejects it, even if the permits are there.
func (e *engine) TryAcquire(permits int) core.Lease {
	if l, ok := e.check(permits); !ok {
		return l
	}
	o := &op{kind: opTake, n: int64(permits)}
	e.request(o, true)
	if o.done != nil {
		<-o.done
	}
	if o.outcome == away && e.shared.Down == DownLocal {
		return e.count(e.shared.Local.TryAcquire(permits))
	}
	return e.lease(o)
}

// Acquire takes permits, waiting for them if it must and the queue limit allows. A done
// ctx, then or later, ends it with ctx.Err(), unchanged, at once, and what it had taken is
// given back. A rate limiter rejects at once if the wait would outlast ctx's deadline.
func (e *engine) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if permits >= 0 {
		if err := ctx.Err(); err != nil {
			return core.Refuse(err), err
		}
	}
	if l, ok := e.check(permits); !ok {
		return l, l.Err()
	}
	o := &op{kind: opTake, n: int64(permits), waits: true, leaves: ending.Watch(ctx)}
	o.deadline, _ = ctx.Deadline()
	e.request(o, o.leaves == nil) //nolint:contextcheck // what is asked for many does not end with one's ctx
	if o.done != nil && !e.stay(ctx, o) {
		return core.Refuse(ctx.Err()), ctx.Err()
	}
	if o.outcome == granted {
		// Which came first is not known here, so a done ctx wins.
		if err := ctx.Err(); err != nil {
			e.forget(o) //nolint:contextcheck // as above
			return core.Refuse(err), err
		}
	}
	if o.outcome == away && e.shared.Down == DownLocal {
		return e.acquireLocal(ctx, permits)
	}
	l := e.lease(o)
	return l, l.Err()
}

// check answers what no limiter needs to be asked for.
func (e *engine) check(permits int) (core.Lease, bool) {
	switch {
	case permits < 0:
		return core.Refuse(core.ErrNegativePermits), false
	case e.shared.Store == nil:
		return core.Refuse(core.ErrClosed), false
	}
	return core.Lease{}, true
}

// request decides o, or has the store or the queue decide it; done is made if it is not
// decided when request returns. patient tells that the caller can stay until Budget is over.
func (e *engine) request(o *op, patient bool) {
	now := time.Now()
	o.due = now.Add(e.shared.Budget)
	e.mu.Lock()
	e.requestLocked(o, now)
	e.unlockFor(o, patient)
}

// unlockFor lets go of the mutex, and makes done if o is not decided then. If nobody calls the
// store yet and the caller can wait for it, it makes the call itself, which saves it the way to
// another goroutine and back.
func (e *engine) unlockFor(o *op, patient bool) {
	var own *runner
	switch {
	case o.decided:
	case patient && e.prompt && e.starts != nil:
		own, e.starts = e.starts, nil
	default:
		o.openLocked()
	}
	e.unlock() // only now may another decide it
	if own != nil {
		own.step(o)
	}
}

func (e *engine) requestLocked(o *op, now time.Time) {
	o.t = e.t
	switch n := int(o.n); {
	case e.closed:
		e.refuseLocked(o, core.ErrClosed)
	case n > e.t.limit:
		e.refuseLocked(o, &core.ExceedsLimitError{Limiter: e.t.name, Permits: n, Limit: e.t.limit})
	case n > 0 && e.queue.oldest != nil && e.t.order == core.OldestFirst:
		e.missLocked(o, now) // no overtaking
	case e.stock.spend(n, now):
		e.spendLocked(o, now)
	case e.refusals.refuse(n, now):
		e.missLocked(o, now)
	case !e.breaker.pass(o, now):
		e.awayLocked(o, e.breaker.err)
	default:
		e.askLocked(o)
	}
}

// missLocked decides or queues a request for what is not there.
func (e *engine) missLocked(o *op, now time.Time) {
	if o.waits {
		e.enqueueLocked(o, now)
	} else {
		e.rejectLocked(o, now, "permits exhausted")
	}
}

// askLocked puts o into the next call.
func (e *engine) askLocked(o *op) {
	e.next = append(e.next, o)
	e.callLocked()
}

// unlock lets go of the mutex, with an alarm set for those who wait, and a goroutine to call
// the store if it is needed.
func (e *engine) unlock() {
	if !e.queue.empty() || e.queue.timer != nil {
		e.setAlarmLocked(time.Now())
	}
	starts := e.starts
	e.starts = nil
	e.mu.Unlock()
	if starts != nil {
		go starts.run()
	}
}

// decideLocked ends o.
func (e *engine) decideLocked(o *op, out outcome) {
	if o.queued {
		e.queue.remove(o)
	}
	o.outcome, o.decided, o.t = out, true, e.t
	switch {
	case o.done == nil:
	case e.woken != nil:
		e.woken = append(e.woken, o.done)
	default:
		close(o.done)
	}
}

func (e *engine) refuseLocked(o *op, err error) {
	o.cause = err
	e.decideLocked(o, refused)
}

// rejectLocked decides that the limit has no room for o.
func (e *engine) rejectLocked(o *op, now time.Time, reason string) {
	e.rejected++
	o.reason = reason
	if e.t.timed() {
		if due, ok := e.dueLocked(o, now); ok {
			o.retry = roundUp(max(due.Sub(now), 1))
		}
	}
	o.answer.left, o.answer.reset = e.leftLocked(now), e.resetLocked(now)
	e.decideLocked(o, rejected)
}

// awayLocked decides o by Down.
func (e *engine) awayLocked(o *op, err error) {
	if e.shared.Down == DownDeny {
		e.rejected++
		e.refuseLocked(o, err)
		return
	}
	if e.shared.Down == DownAllow {
		e.granted++
	}
	e.decideLocked(o, away)
}

// spendLocked grants what was fetched ahead.
func (e *engine) spendLocked(o *op, now time.Time) {
	e.granted++
	e.stock.used += o.n
	o.answer = answer{left: e.leftLocked(now), reset: e.resetLocked(now), stamp: e.stock.stamp}
	e.decideLocked(o, granted)
}

// leave takes o out if it is not decided; the caller goes away.
func (e *engine) leave(o *op) bool {
	e.mu.Lock()
	defer e.unlock()
	if o.decided {
		return false
	}
	e.dropLocked(o)
	return true
}

// dropLocked takes out an o whose caller goes away.
func (e *engine) dropLocked(o *op) {
	o.dropped = true
	if o.queued {
		first := o == e.queue.head(e.t.order) || o.n == 0
		e.queue.remove(o)
		if first && e.queue.oldest != nil {
			e.kickLocked()
		}
	}
}

// forget gives back a grant that nobody has seen. It stays counted: counts do not fall.
func (e *engine) forget(o *op) {
	e.mu.Lock()
	e.returnLocked(o)
	e.unlock()
}

// returnLocked gives back what was granted to o.
func (e *engine) returnLocked(o *op) {
	switch {
	case o.n == 0:
	case o.lease != nil:
		e.endLocked(o.lease, released)
		e.giveLeaseLocked(&op{kind: opGive, n: o.lease.token, lease: o.lease})
	default:
		e.refusals = nil
		e.askLocked(giveBack(o.n, o.answer.stamp))
	}
}

// leftLocked estimates what is available.
func (e *engine) leftLocked(now time.Time) int {
	left := e.known.left
	if e.known.forecast != nil {
		f := e.known.forecast.clone()
		f.advance(since(now, e.known.at))
		left = f.available()
	} else if e.t.timed() && !now.Before(e.known.whole) {
		left = e.t.limit
	}
	return min(left+e.stock.left(now), e.t.limit)
}

// resetLocked estimates the microseconds until all permits are back.
func (e *engine) resetLocked(now time.Time) int64 {
	return int64(roundUp(max(e.known.whole.Sub(now), 0)) / time.Microsecond)
}

// dueLocked returns the instant at which o could be served if nothing else came, the queue
// ahead of it first; false: it is not known.
func (e *engine) dueLocked(o *op, now time.Time) (time.Time, bool) {
	n, f := int(max(o.n, 1)), e.known.forecast
	first, sure := e.refusals.until(n, now)
	if f == nil {
		if !o.ready.IsZero() {
			first, sure = o.ready, true
		}
		return first, sure
	}
	ahead := e.queue.oldest != nil && !o.queued && (o.n == 0 || e.t.order == core.OldestFirst)
	at := since(now, e.known.at)
	var due int64
	switch {
	case !ahead:
		f = f.clone()
		f.advance(at)
		due = f.ready(at, n)
	case o.n == 0:
		due = e.queue.probeDue(f.clone(), at, e.t.order)
	default:
		due = e.queue.planned(f, at).due(n)
	}
	if due == never {
		return now.Add(lasts(never)), true
	}
	if t := e.known.at.Add(lasts(due)); t.After(first) {
		first = t
	}
	return first, true
}

// since returns the whole microseconds from at to now.
func since(now, at time.Time) int64 { return max(int64(now.Sub(at)/time.Microsecond), 0) }

// roundUp returns d in whole microseconds.
func roundUp(d time.Duration) time.Duration {
	if r := d % time.Microsecond; r > 0 {
		d += time.Microsecond - r
	}
	return max(d, 0)
}
