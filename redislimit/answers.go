package redislimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// errTooSoon is the cause of a rejection for a hopeless deadline.
var errTooSoon = context.DeadlineExceeded

// finishLocked deals the store's answer out, in order.
func (e *engine) finishLocked(c *call, got []int64, err error, now time.Time) {
	c.ended = true
	if c.queued > 0 {
		e.queue.asking = false
	}
	var r reply
	if err == nil {
		r, err = c.t.read(got, c.ops, c.answers)
		c.answers = r.answers
	}
	for _, o := range c.ops {
		if o.probe {
			e.breaker.probing = false
		}
	}
	e.answeredLocked(err, now)
	switch {
	case err != nil:
		e.failLocked(c)
		return
	case r.conflict != 0:
		e.conflictLocked(c, r.conflict)
		return
	}
	now = e.learnLocked(c, r, now)
	returned := false
	var again []*op
	for i, o := range c.ops {
		a := r.answers[i]
		switch o.kind {
		case opTake:
			if e.takenLocked(c, o, a, now) {
				again = append(again, o)
			}
			continue
		case opAhead:
			e.stock.fill(c, r, a)
			e.stockTimerLocked()
			if e.closed { // Close waits for this call, and for what it leads to
				e.stock.returning = true
			}
		case opGive:
			returned = returned || a.status == 1
		}
		e.doneLocked(o, a)
	}
	// Who was refused only for somebody ahead, who did not come to wait, is asked for again.
	if len(again) > 0 {
		e.next = append(again, e.next...)
	}
	if returned && !e.queue.empty() || e.queue.oldest == nil && e.queue.probes != nil && e.known.left > 0 {
		e.kick = true
	}
}

// learnLocked notes what the answer says of the limit, and returns the instant from which its
// durations count.
//
// The store's clock has no more than microseconds, and what it tells is rounded up. If that
// is all by which the instant at which everything is back differs from the one that was known, that
// one is right.
func (e *engine) learnLocked(c *call, r reply, now time.Time) time.Time {
	e.queue.plan = nil
	last := r.answers[len(c.ops)-1]
	if late := now.Add(lasts(last.reset)).Sub(e.known.whole); late > 0 && late < time.Microsecond {
		now = now.Add(-late)
	}
	told := known{told: now, at: now, left: last.left, whole: now.Add(lasts(last.reset)), forecast: r.forecast}
	if c.t.kind == kindBucket {
		e.played = forecast{t: c.t, lack: r.lack, tick: -r.age}
		told.forecast = &e.played
	}
	switch {
	case r.odd:
		told.forecast, told.left = nil, 0 // what it tells is not so
	case c.t != e.t:
		told.forecast = nil // it counts by other terms
	case told.forecast == nil && e.known.forecast != nil:
		// The answer does not have all segments. If nobody else took, they are known.
		if f := e.known.forecast; f.taken(c, r, since(now, e.known.at)) {
			told.forecast, told.at = f, e.known.at
		}
	}
	e.known = told
	return now
}

// takenLocked deals with the answer to a request, and reports whether it is to be asked
// again.
func (e *engine) takenLocked(c *call, o *op, a answer, now time.Time) (again bool) {
	if o.decided {
		// It was decided otherwise meanwhile, and is its caller's.
		o = &op{kind: opTake, n: o.n, dropped: true}
	}
	o.answer = a
	if a.status == 1 {
		if o.n > 0 && !e.t.timed() {
			o.lease = e.holdLocked(o, c.sent)
		}
		if o.left() {
			e.returnLocked(o)
			e.dropLocked(o)
			return false
		}
		e.granted++
		e.stock.asked(o.n)
		e.decideLocked(o, granted)
		return false
	}
	o.ready = retryOf(a, now)
	if e.t.timed() && a.retry > 0 {
		e.refusals.add(int(max(o.n, 1)), o.ready)
	}
	switch {
	case o.dropped || o.queued:
	case e.closed:
		e.refuseLocked(o, core.ErrClosed)
	case !a.odd && a.left >= int(o.n) && o.n > 0 && e.queue.oldest == nil && e.t.order == core.OldestFirst:
		return true
	case o.waits:
		e.enqueueLocked(o, now)
	default:
		e.rejectLocked(o, now, "permits exhausted")
	}
	return false
}

// doneLocked ends an operation that is no request.
func (e *engine) doneLocked(o *op, a answer) {
	o.answer = a
	if !o.decided {
		e.decideLocked(o, granted)
	}
}

// failLocked decides all who were in a call that failed. Those who wait in the queue wait
// on.
func (e *engine) failLocked(c *call) {
	for _, o := range c.ops {
		switch {
		case o.decided || o.dropped || o.queued:
		case o.kind == opTake:
			e.awayLocked(o, e.breaker.err)
		case o.kind == opGive && o.lease != nil:
			e.tellAgainLocked(o.lease)
			e.decideLocked(o, away)
		default:
			e.decideLocked(o, away)
		}
	}
	if e.breaker.down {
		e.breaker.probing = false
	}
}

// conflictLocked decides all who were in a call that found another kind of limit.
func (e *engine) conflictLocked(c *call, k kind) {
	err := fmt.Errorf("redislimit: the key %q holds %v, want %v", e.shared.Key, k, e.t.kind)
	for _, o := range c.ops {
		if !o.decided && !o.dropped {
			e.refuseLocked(o, err)
		}
	}
}

// lateLocked gives back what was granted in an answer that nobody waits for any more.
func (e *engine) lateLocked(c *call, got []int64, err error) {
	if err != nil {
		return
	}
	r, err := c.t.read(got, c.ops, nil)
	if err != nil || r.conflict != 0 {
		return
	}
	for i, o := range c.ops {
		a := r.answers[i]
		if a.status < 1 || o.kind != opTake && o.kind != opAhead || o.n == 0 {
			continue
		}
		back := giveBack(o.n, a.stamp)
		if !c.t.timed() {
			back.n, back.x = a.stamp.at, 0
		} else if o.kind == opAhead {
			back.n = a.status
		}
		e.askLocked(back)
	}
}

// lease returns what the caller of o gets.
func (e *engine) lease(o *op) core.Lease {
	var room [7]core.Metadata // what all tell, and four more
	m := append(room[:0], o.t.metadata()...)
	switch o.outcome {
	case granted:
		return e.grantOf(o, m)
	case rejected:
		err := &core.RejectedError{Limiter: o.t.name, Permits: int(o.n), Reason: o.reason, Detail: o.detail, RetryAfter: o.retry, Cause: o.cause}
		m = append(m, core.ReasonPhrase.With(o.reason))
		if o.retry > 0 {
			m = append(m, core.RetryAfter.With(o.retry))
		}
		return core.Refuse(err).With(e.figures(o, m)...)
	case away:
		return core.Grant(int(o.n), nil, m...)
	}
	l := core.Refuse(o.cause)
	if errors.Is(o.cause, ErrStore) {
		l = l.With(m...)
	}
	return l
}

// figures appends what was left after a decision.
func (e *engine) figures(o *op, m []core.Metadata) []core.Metadata {
	m = append(m, core.Remaining.With(min(o.answer.left, o.t.limit)))
	if o.t.timed() {
		m = append(m, core.ResetAfter.With(lasts(o.answer.reset)))
	}
	return m
}

// grantOf returns the lease of a grant.
func (e *engine) grantOf(o *op, m []core.Metadata) core.Lease {
	m = e.figures(o, m)
	switch {
	case o.n == 0:
		return core.Grant(0, nil, m...)
	case o.lease != nil:
		m = append(m, FencingToken.With(uint64(o.lease.token)), o.lease.metadata())
		return core.Grant(int(o.n), o.lease.release, m...)
	}
	o.spent.e, o.spent.o = e, o
	m = append(m, spentKey.With(&o.spent))
	return core.Grant(int(o.n), nil, m...)
}

// count counts what Shared.Local decided.
func (e *engine) count(l core.Lease) core.Lease {
	e.mu.Lock()
	if l.Acquired() {
		e.granted++
	} else if errors.Is(l.Err(), core.ErrRejected) {
		e.rejected++
	}
	e.mu.Unlock()
	return l
}

// acquireLocal has Shared.Local decide, until Close.
func (e *engine) acquireLocal(ctx context.Context, permits int) (core.Lease, error) {
	waiting := e.locals.Begin(ctx)
	defer waiting.End() // if Local panics, too
	if cause := e.locals.Cause(); cause != nil {
		return core.Refuse(cause), cause
	}
	l, err := e.shared.Local.Acquire(waiting, permits) //nolint:contextcheck // it is ctx, until Close
	l, err = limiter.Checked(e.shared.Local, l, err)
	if cause := waiting.Explain(err); cause != err && errors.Is(err, context.Canceled) { //nolint:errorlint // that very error
		return core.Refuse(cause), cause
	}
	return e.count(l), err
}
