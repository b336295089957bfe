package redislimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// engine is what all four limiters are. A request is decided by what is remembered, or it is
// gathered for the next call of the store: there is one call at a time, and what comes
// meanwhile travels together in the next one (call.go). An Acquire that the store refuses waits
// in the queue (queue.go).
//
// The mutex is held neither while the store is asked nor while anybody else's code runs. Of
// other locks only the guard's is taken under it.
type engine struct {
	shared  Shared // with its defaults; no Store: not made by a constructor
	guard   *guard
	keys    []string
	channel string // where releases are published; "": they are not
	holder  int64  // distinguishes the leases of this limiter from those of others

	mu         sync.Mutex
	terms      *terms
	closed     bool
	next       []*request      // for the next call
	askWaiters bool            // the next call asks for the waiters, too
	calling    bool            // a goroutine makes calls
	rests      chan struct{}   // closed when none does; nil: nobody wants to know
	spare      *call           // memory for the next call; nil: there is none
	woken      []chan struct{} // to be closed when the mutex is free
	canceled   []func()        // likewise, to be called
	memory     memory
	queue      queue
	leases     leases
	listener   listener
	looked     time.Time // when Statistics last asked
	granted    uint64
	rejected   uint64

	locals wait.Source // ends the waits in Shared.Local at Close; not guarded
}

// start makes the engine ready. The shared options are valid.
func (e *engine) start(s Shared, t *terms) {
	e.shared, e.terms, e.guard = s.withDefaults(), t, newGuard(s)
	limit := "{" + s.Key + "}:limit"
	e.keys = []string{limit}
	if !t.rate() {
		e.keys = append(e.keys, "{"+s.Key+"}:leases")
		e.holder = rand.Int64N(most) //nolint:gosec // a name, no secret
		e.channel = limit + ":released"
	}
	now := time.Now()
	e.memory = memory{left: t.limit, whole: now, forecast: forecast{terms: t}}
	e.leases.since = now
}

// TryAcquire takes permits if they are available now. It waits only for the store, for
// [Shared].Budget at most. While somebody in this process waits, an oldest-first limiter
// rejects it even if the permits are available.
func (e *engine) TryAcquire(permits int) core.Lease {
	if err := e.check(permits); err != nil {
		return core.Refuse(err)
	}
	r := newRequest(op{code: opTake, permits: int64(permits)})
	e.decide(r)
	switch {
	case r.outcome != unreachable:
		return e.leaseOf(r)
	case e.shared.Down == DownLocal:
		return e.count(e.shared.Local.TryAcquire(permits))
	}
	return e.unrecorded(r)
}

// Acquire takes permits. If they are not available it waits for them, if the queue limit
// allows. If ctx is done, then or later, Acquire returns ctx.Err(), unchanged, at once; what
// the store grants afterwards is given back. A rate limiter rejects at once if the wait would
// outlast ctx's deadline.
func (e *engine) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	err := ctx.Err()
	if permits < 0 || err == nil {
		err = e.check(permits)
	}
	if err != nil {
		return core.Refuse(err), err
	}
	r := newRequest(op{code: opTake, permits: int64(permits)})
	r.waits, r.leaves = true, ctx.Done()
	r.deadline, _ = ctx.Deadline()
	if err := e.await(ctx, r); err != nil {
		return core.Refuse(err), err
	}
	var l core.Lease
	switch {
	case r.outcome != unreachable:
		l = e.leaseOf(r)
	case e.shared.Down == DownLocal:
		l, err = hold.Acquire(ctx, &e.locals, e.shared.Local, permits)
		return e.count(l), err
	default:
		l = e.unrecorded(r)
	}
	return l, l.Err()
}

// check returns what is wrong with a request whatever the limit says.
func (e *engine) check(permits int) error {
	switch {
	case permits < 0:
		return core.ErrNegativePermits
	case e.shared.Store == nil:
		return core.ErrClosed
	}
	return nil
}

// decide returns when r is decided.
func (e *engine) decide(r *request) {
	now := time.Now()
	e.mu.Lock()
	e.beginLocked(r, now)
	e.finish(r)
}

// finish unlocks the mutex, and returns when r is decided. If nobody calls the store, and that is ready,
// the caller does.
func (e *engine) finish(r *request) {
	leads := !e.calling && len(e.next) > 0 && e.guard.ready()
	e.calling = e.calling || leads
	e.unlock()
	if leads {
		e.lead()
	}
	if r.done != nil {
		<-r.done
	}
}

// await is decide for a caller that leaves when ctx is done; then it returns ctx.Err().
func (e *engine) await(ctx context.Context, r *request) error {
	if r.leaves == nil {
		e.decide(r) //nolint:contextcheck // a call of many does not end with one's ctx
	} else {
		e.begin(r) //nolint:contextcheck // likewise
	}
	if r.done != nil {
		select {
		case <-r.done:
		case <-r.leaves:
			if e.leave(r) { //nolint:contextcheck // as above
				return ctx.Err()
			}
		}
	}
	err := ctx.Err()
	if err != nil && r.outcome == granted { // which came first is not known, so a done ctx wins
		e.mu.Lock()
		defer e.unlock()  //nolint:contextcheck // as above
		e.returnLocked(r) //nolint:contextcheck // as above
		return err
	}
	return nil
}

// begin decides r, or gathers it for the next call.
func (e *engine) begin(r *request) {
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	e.beginLocked(r, now)
}

func (e *engine) beginLocked(r *request, now time.Time) {
	r.due = now.Add(e.shared.Budget)
	n := int(r.permits)
	if r.code != opTake {
		if r.code == opGive || r.code == opReturn || r.code == opReset || r.code == opBind {
			e.memory.refused = refusal{} // permits come back
		}
		if err := e.guard.refuses(now); err != nil {
			r.err = err
			e.decideLocked(r, unreachable)
		} else {
			e.gatherLocked(r)
		}
		return
	}
	if !e.admitLocked(r, now) {
		return
	}
	switch {
	case e.memory.prefetch.spend(n, now):
		e.granted++
		r.answer = answer{left: e.memory.available(e.terms, now), reset: e.memory.reset(now), stamp: e.memory.prefetch.stamp, window: e.memory.window}
		e.decideLocked(r, granted)
	case e.memory.refuses(n, now):
		e.missLocked(r, now)
	default:
		e.gatherLocked(r)
	}
}

// gatherLocked has r asked for by the next call.
func (e *engine) gatherLocked(r *request) {
	r.done = make(chan struct{})
	e.next = append(e.next, r)
}

// admitLocked reports whether a newcomer is still to be asked for, and decides it if not.
func (e *engine) admitLocked(r *request, now time.Time) bool {
	switch n := int(r.permits); {
	case r.stage != asking:
		return false
	case e.closed:
		e.refuseLocked(r, core.ErrClosed)
	case n > e.terms.limit:
		e.refuseLocked(r, &core.ExceedsLimitError{Limiter: e.terms.name, Permits: n, Limit: e.terms.limit})
	case n > 0 && e.queue.permits > 0 && e.terms.order == core.OldestFirst:
		e.missLocked(r, now) // nobody overtakes
	default:
		if err := e.guard.refuses(now); err != nil {
			e.unreachableLocked(r, err)
			return false
		}
		return true
	}
	return false
}

// missLocked rejects or queues a request for permits that are not available.
func (e *engine) missLocked(r *request, now time.Time) {
	if r.waits {
		e.enqueueLocked(r, now)
	} else {
		e.rejectLocked(r, now, core.ReasonExhausted)
	}
}

// decideLocked ends r.
func (e *engine) decideLocked(r *request, out outcome) {
	if r.stage == queued {
		e.queue.remove(r)
	}
	r.stage, r.outcome, r.terms = decided, out, e.terms
	if r.done != nil {
		e.woken = append(e.woken, r.done)
	}
}

func (e *engine) refuseLocked(r *request, err error) {
	r.err = err
	e.decideLocked(r, refused)
}

// rejectLocked decides that the limit has no room for r.
func (e *engine) rejectLocked(r *request, now time.Time, reason string) {
	e.rejected++
	r.reason = reason
	if e.terms.rate() {
		r.retry = lasts(e.terms.period()) // if nothing is known
		// An evicted one may fit now; but if the store has said that it does not, nothing is known.
		if due, ok := e.dueLocked(r, now); ok && (due.After(now) || reason == core.ReasonEvicted) {
			r.retry = lasts(max(microseconds(due.Sub(now)), 1))
		}
	}
	r.answer.left, r.answer.reset, r.answer.window = e.memory.available(e.terms, now), e.memory.reset(now), e.memory.window
	e.decideLocked(r, rejected)
}

// unreachableLocked has Down decide r.
func (e *engine) unreachableLocked(r *request, err error) {
	switch e.shared.Down {
	case DownDeny:
		e.rejected++
		e.refuseLocked(r, err)
		return
	case DownAllow:
		e.granted++
	case DownLocal: // counted when Local has decided
	}
	e.decideLocked(r, unreachable)
}

// leave takes r out if it is not decided; its caller goes away.
func (e *engine) leave(r *request) bool {
	e.mu.Lock()
	defer e.unlock()
	if r.stage == decided {
		return false
	}
	e.leaveLocked(r)
	return true
}

func (e *engine) leaveLocked(r *request) {
	if r.stage == queued {
		first := r.permits > 0 && r == e.queue.head(e.terms.order)
		e.queue.remove(r)
		e.askWaiters = e.askWaiters || first && e.queue.permits > 0
	}
	r.stage = gone
}

// returnLocked gives back what was granted to r and nobody has. The grant stays counted, if it
// was: counts do not fall.
func (e *engine) returnLocked(r *request) {
	switch {
	case r.permits == 0:
	case r.held != nil:
		e.endLocked(r.held, released)
		e.releaseLocked(r.held)
	default:
		e.memory.forget()
		e.gatherLocked(newRequest(op{code: opGive, permits: r.permits, stamp: r.answer.stamp}))
	}
}

// unlock lets go of the mutex; e.mu.Lock takes it. It sets the waiters' alarm, sees to it that
// somebody calls the store if there is something to ask, and wakes the callers whose requests were
// decided: not before, as they would find the mutex taken.
func (e *engine) unlock() {
	e.setAlarmLocked()
	if !e.calling && e.asksLocked() {
		e.calling = true
		go e.calls()
	}
	woken, canceled := e.woken, e.canceled
	e.woken, e.canceled = nil, nil
	e.mu.Unlock()
	for _, done := range woken {
		close(done)
	}
	for _, cancel := range canceled {
		cancel()
	}
}

// leaseOf returns the lease of a decided request.
func (e *engine) leaseOf(r *request) core.Lease {
	if r.outcome == granted {
		return e.grantOf(r)
	}
	return e.refusalOf(r)
}

// unrecorded returns the lease of DownAllow, which holds nothing.
func (e *engine) unrecorded(r *request) core.Lease {
	m := slices.Clip(r.terms.metadata)
	if r.terms.ofCalendar() {
		m = append(m, r.terms.windowOf(0))
	}
	return core.Grant(int(r.permits), nil, append(m, grantKey.With(&grant{e: e}))...)
}

// count counts what Shared.Local decided.
func (e *engine) count(l core.Lease) core.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.Acquired() {
		e.granted++
	} else if errors.Is(l.Err(), core.ErrRejected) {
		e.rejected++
	}
	return l
}
