package redislimit

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// request is a caller's request for permits. The cache decides it, or it is an operation of the next call of the store. Then it is
// decided or, if it is an Acquire that the store refused, waits in the queue.
type request struct {
	operation // takes the permits
	demand

	e       *Limiter
	done    chan struct{} // channel of capacity 1; receives when the request is decided
	awaited bool          // it was not decided immediately, so done receives

	// The engine's mutex guards these fields. Once the request is decided, they do not change.
	stage  stage
	waiter *machine.Waiter[*request] // waiter in the queue

	// Once it is decided:
	limits *limits // limits that decided it
	result result
	err    error      // error of a failed request
	why    *rejection // reason of a rejected one
	lease  *lease     // lease of a concurrency limiter's grant
	grant  *grant     // grant of a reservation that is in the queue; nil of all others

	next *request // next in a stack of requests to which nobody else refers
}

// maxSpare is how many requests a limiter keeps for requests to come.
const maxSpare = 64

// demand is how a caller wants permits.
type demand struct {
	waits    bool      // it is an Acquire, which may be queued
	beyond   bool      // it waits whatever QueueLimit is
	quiet    bool      // a rejection is not counted and has no reason
	reserves bool      // it takes permits that are not there, too, as a debt
	flow     fair.Flow // under FairShare
	deadline time.Time // the caller's; zero if there is none
}

// stage is the progress of a request.
type stage uint8

const (
	asking    stage = iota // an operation of the next call, or of one that is in flight
	queued                 // it waits in the queue
	abandoned              // the caller has given up

	// The request is decided.
	granted
	rejected
	failed      // for another reason than the limit
	unreachable // [Options].Unavailable decides
)

func (s stage) decided() bool { return s >= granted }

// admitLocked decides a request, or returns true if the store has to be called. While the store is unavailable, it leaves
// the request to Unavailable, whoever waits.
func (e *Limiter) admitLocked(req *request, now time.Time) (asks bool) {
	n := req.permits
	switch {
	case e.closed:
		e.failLocked(req, core.ErrClosed)
		return false
	case n > e.limits.limit:
		e.failLocked(req, &core.ExceedsLimitError{Limiter: e.limits.name, Permits: n, Limit: e.limits.limit})
		return false
	}
	if err := e.client.blockedLocked(now); err != nil {
		e.unreachableLocked(req, err)
		return false
	}
	if n > 0 && !req.reserves && e.waitersAheadLocked() && e.missesPermitsLocked() {
		e.missLocked(req, now)
		return false
	}
	return true // if all waiters have tickets, the store knows of them
}

// waitersAheadLocked reports whether a new request would overtake a waiter.
func (e *Limiter) waitersAheadLocked() bool {
	return e.queue.Queued() > 0 && e.limits.order != core.NewestFirst
}

// wanted implements asker.
func (r *request) wanted(_ *operation, now time.Time) bool {
	e := r.e
	if r.stage != asking || !e.admitLocked(r, now) {
		return false
	}
	r.flags = 0
	if (r.waits || r.reserves) && r.permits > 0 {
		willWait := r.beyond || r.permits <= e.limits.queueLimit-e.queue.Queued()
		if !e.limits.rate() && (r.beyond || e.limits.queueLimit > 0) {
			r.flags = flagWaited
		}
		// A request that will be queued if it is refused blocks those behind it.
		if e.limits.order != core.NewestFirst && willWait {
			r.flags |= flagBlocks
		}
		if willWait && (r.reserves || e.promisedLocked()) {
			r.flags |= flagLater
			r.after = e.cache.tickets.last()
		}
	}
	e.keeper.nameLocked(&r.operation)
	return true
}

// ended implements asker.
func (r *request) ended(o *operation, c *call, got result) {
	e := r.e
	switch {
	case c.err != nil:
		e.failedLocked(o, c)
		switch {
		case r.stage != asking:
		case errors.Is(c.err, ErrStore):
			e.unreachableLocked(r, c.err)
		default:
			e.failLocked(r, c.err)
		}
	case got.done == 0 && r.permits == 0 && e.promisesLocked(c.at) && r.stage == asking:
		e.zeroLocked(got, c.at).give(r)
	case got.done == 0 && r.reserves && r.permits == 0 && r.stage == asking: // a probe
		e.cache.refused(0, got, c.at)
		g := e.zeroLocked(got, c.at)
		g.result.wait = microseconds(time.Duration(e.queue.ReadyAt(e.instant(c.at), 0) - e.instant(c.at)))
		g.give(r)
	case got.done == 0:
		e.cache.refused(r.permits, got, c.at)
		switch {
		case r.stage != asking:
		case r.reserves && o.flags&flagLater != 0 && e.limits.ofCalendar(): // without a ticket, others could take the permits
			e.rejectLocked(r, c.at, core.RejectedError{Reason: core.ReasonExhausted}, e.queue.ReadyAt(e.instant(c.at), r.permits))
		default:
			r.result = got
			e.missLocked(r, c.at)
		}
	case e.keepLocked(c, r.permits, got):
		if r.stage == asking {
			e.missLocked(r, c.at)
		}
		e.moveUpLocked(got)
	default:
		g := e.grantedLocked(o, c, got)
		if r.stage == asking && (r.permits == 0 || r.reserves || !e.waitersAheadLocked()) {
			g.give(r)
			return
		}
		e.offerLocked(g)
		if r.stage == asking {
			e.missLocked(r, c.at)
		}
	}
}

// waiting is the asker of the operations that ask for waiters.
type waiting struct{ e *Limiter }

func (waiting) wanted(*operation, time.Time) bool { return true }

func (w waiting) ended(o *operation, c *call, got result) {
	e := w.e
	e.answered = e.cache.at
	switch {
	case c.err != nil:
		e.failedLocked(o, c)
	case got.done == 0 && o.permits == 0 && e.promisesLocked(c.at):
		e.serveZeroLocked(e.zeroLocked(got, c.at).result)
	case got.done == 0:
		e.cache.refused(o.permits, got, c.at)
		if o.flags&flagLater != 0 {
			e.cache.tickets.stalled = c.at.Add(askEvery)
		}
	case o.permits == 0:
		e.serveZeroLocked(got)
	case e.keepLocked(c, o.permits, got):
	default:
		e.offerLocked(e.grantedLocked(o, c, got))
		e.served++
		if e.served == maxWaiters {
			e.asks = true
		}
	}
}

// given is a grant of the store for which no caller is chosen yet.
type given struct {
	permits int
	result  result
	lease   *lease
}

func (e *Limiter) grantedLocked(o *operation, c *call, got result) given {
	g := given{permits: o.permits, result: got}
	if o.id != 0 {
		g.lease = e.keeper.holdLocked(o.id, int64(o.permits), got, c.sent)
	}
	return g
}

// failedLocked is called with an operation of a call that had no effect, or whose effect is not known.
func (e *Limiter) failedLocked(o *operation, c *call) {
	if o.id != 0 && errors.Is(c.err, ErrStore) {
		e.keeper.orphanLocked(o.id) // it may have been granted
	}
}

// give gives a grant to a request.
func (g given) give(r *request) {
	if r.stage == granted { // it was reserved
		r.grant.certain, r.grant.stamp = int64(r.permits), g.result.stamp
		r.e.granted.Add(1)
		return
	}
	r.result, r.lease = g.result, g.lease
	r.e.cache.prefetch.used += int64(r.permits)
	r.e.decideLocked(r, granted)
}

// offerLocked gives a grant to the waiter that is next. What it does not want is returned.
func (e *Limiter) offerLocked(g given) {
	w := e.queue.Offer(e.instant(time.Now()), g.permits)
	if w == nil {
		e.returnLocked(g)
		return
	}
	if rest := g.permits - w.N; rest > 0 { // it was asked for another one, which is gone
		if g.lease == nil {
			e.addLocked(e.task(giveOp(int64(rest), g.result.stamp)), time.Now())
		} else {
			g.lease.permits = int64(w.N)
			g.lease.version++
			e.addLocked(e.keeper.renew(g.lease), time.Now())
		}
	}
	g.give(w.Value)
}

// returnLocked returns the permits of a grant that no caller takes.
func (e *Limiter) returnLocked(g given) {
	switch {
	case g.permits == 0:
	case g.lease != nil:
		e.keeper.endLocked(g.lease, released)
		e.addLocked(e.keeper.release(g.lease), time.Now())
	default:
		e.cache.forget()
		e.addLocked(e.task(giveOp(int64(g.permits), g.result.stamp)), time.Now())
	}
}

// serveZeroLocked serves the waiters for zero permits.
func (e *Limiter) serveZeroLocked(got result) {
	for w := e.queue.Offer(e.instant(time.Now()), 0); w != nil; w = e.queue.Offer(e.instant(time.Now()), 0) {
		given{result: result{left: got.left, reset: got.reset, window: got.window}}.give(w.Value)
	}
}

// missLocked rejects or queues a request for permits that are not available.
func (e *Limiter) missLocked(req *request, now time.Time) {
	at := e.instant(now)
	switch {
	case e.closed:
		e.failLocked(req, core.ErrClosed)
		return
	case !req.waits && !req.reserves:
		e.rejectLocked(req, now, core.RejectedError{Reason: core.ReasonExhausted}, e.queue.ReadyAt(at, req.permits))
		return
	}
	deadline := int64(machine.Never)
	if !req.deadline.IsZero() {
		deadline = e.instant(req.deadline)
	}
	a := e.queue.Admit(at, req.permits, deadline, req.flow, req.beyond)
	if a.Outcome != machine.Waiting {
		e.answerLocked(req, a, now)
		return
	}
	req.stage = queued
	req.waiter = &machine.Waiter[*request]{N: req.permits, Beyond: req.beyond, Reserved: req.reserves, Value: req}
	if req.reserves {
		e.reserveLocked(req, now)
	}
	if e.limits.order == core.FairShare {
		req.waiter.SetFlow(req.flow)
	}
	e.queue.Enqueue(at, req.waiter)
	e.listenLocked()
}

// answerLocked decides a request as the queue says.
func (e *Limiter) answerLocked(req *request, a machine.Answer, now time.Time) {
	why := core.RejectedError{}
	switch a.Outcome {
	case machine.ExceedsLimit:
		e.failLocked(req, &core.ExceedsLimitError{Limiter: e.limits.name, Permits: req.permits, Limit: e.limits.limit})
		return
	case machine.Ended:
		e.failLocked(req, core.ErrClosed)
		return
	case machine.QueueFull:
		why = e.queueFull()
	case machine.TooSoon:
		why.Reason, why.Cause = core.ReasonDeadlineTooSoon, context.DeadlineExceeded
	case machine.Evicted:
		why.Reason = core.ReasonEvicted
		a.ReadyAt = max(a.ReadyAt, a.At+1) // it may fit now
	}
	e.rejectLocked(req, now, why, a.ReadyAt)
}

// queueFull returns why a request finds no room in the queue.
func (e *Limiter) queueFull() core.RejectedError {
	if e.limits.queueLimit == 0 {
		return core.RejectedError{Reason: core.ReasonQueueLimit, Detail: "QueueLimit is 0"}
	}
	return core.RejectedError{Reason: core.ReasonQueueLimit, Detail: "queue is full"}
}

// concludeLocked ends the requests whose wait the queue has ended by itself. A granted one was ended by give, and may be another
// request by now.
func (e *Limiter) concludeLocked() {
	for w := e.queue.Decided(); w != nil; w = w.Next() {
		e.cache.tickets.gap = e.cache.tickets.gap || w.Answer.Outcome == machine.Evicted
		if req := w.Value; w.Answer.Outcome != machine.Granted && !req.stage.decided() {
			e.answerLocked(req, w.Answer, time.Now())
		}
	}
}

// decideLocked ends a request.
func (e *Limiter) decideLocked(req *request, how stage) {
	req.stage, req.limits = how, e.limits
	if req.awaited {
		e.woken = append(e.woken, req.done)
	}
}

func (e *Limiter) failLocked(req *request, err error) {
	req.err = err
	e.decideLocked(req, failed)
}

// unreachableLocked leaves the request to Unavailable.
func (e *Limiter) unreachableLocked(req *request, err error) {
	req.err = err
	e.decideLocked(req, unreachable)
}

// rejectLocked decides that the limit has no room for the request. why has the reason; readyAt is when there could be room.
func (e *Limiter) rejectLocked(req *request, now time.Time, why core.RejectedError, readyAt int64) {
	if !req.quiet {
		e.rejected.Add(1)
	}
	why.Limiter, why.Permits = e.limits.name, req.permits
	if e.limits.rate() {
		why.RetryAfter = lasts(e.limits.period()) // if nothing is known
		if in := readyAt - e.instant(now); readyAt != machine.Never && in > 0 {
			why.RetryAfter = lasts(max(microseconds(time.Duration(in)), 1))
		}
	}
	why.Limit, why.Available = e.limits.limit, e.cache.available(now)
	req.why = &rejection{RejectedError: why}
	req.result.left, req.result.reset, req.result.window = e.cache.available(now), e.cache.reset(now), e.cache.window
	e.decideLocked(req, rejected)
}

// abandon drops a request whose caller gives up. It reports whether the request was undecided, and whether it has waited in
// the queue.
func (e *Limiter) abandon(req *request) (undecided, waited bool) {
	e.mu.Lock()
	defer e.unlock()
	e.redeemLocked()
	waited = req.waiter != nil
	if req.stage.decided() {
		return false, waited
	}
	if req.stage == queued {
		first := e.queue.Head() == req.waiter
		e.leaveLocked(req.waiter)
		if first && e.queue.Queued() > 0 && !e.promisedLocked() { // others may be served now
			e.asks = true
		}
	}
	req.stage = abandoned
	return true, waited
}

// leaveLocked takes a waiter out of the queue.
func (e *Limiter) leaveLocked(w *machine.Waiter[*request]) {
	e.cache.tickets.gap = e.cache.tickets.gap || e.queue.Newest() != w
	e.queue.Cancel(e.instant(time.Now()), w)
}
