package redislimit

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// admitLocked reports whether the store is to be asked for a new request. If not, it decides the request.
func (e *Limiter) admitLocked(req *request, now time.Time) bool {
	switch n := req.permits; {
	case e.closed:
		e.failLocked(req, core.ErrClosed)
	case n > e.limits.limit:
		e.failLocked(req, &core.ExceedsLimitError{Limiter: e.limits.name, Permits: n, Limit: e.limits.limit})
	default:
		// Unavailable decides before the queue is looked at, so that it also decides while others wait.
		if err := e.breaker.rejects(now); err != nil {
			e.unreachableLocked(req, err)
			return false
		}
		if n > 0 && e.queue.permits > 0 && e.limits.order == core.OldestFirst {
			e.missLocked(req, now) // nothing overtakes a waiter
			return false
		}
		return true
	}
	return false
}

// missLocked rejects or queues a request for permits that are not available.
func (e *Limiter) missLocked(req *request, now time.Time) {
	if req.waits {
		e.queue.admitLocked(req, now)
	} else {
		e.rejectLocked(req, now, core.RejectedError{Reason: core.ReasonExhausted})
	}
}

// decideLocked ends a request.
func (e *Limiter) decideLocked(req *request, how stage) {
	if req.stage == queued {
		e.queue.removeLocked(req)
	}
	req.stage, req.limits = how, e.limits
	if req.done != nil {
		e.woken = append(e.woken, req.done)
	}
}

func (e *Limiter) failLocked(req *request, err error) {
	req.err = err
	e.decideLocked(req, failed)
}

// rejectLocked decides that the limit has no room for the request. why has the reason.
func (e *Limiter) rejectLocked(req *request, now time.Time, why core.RejectedError) {
	e.rejected.Add(1)
	why.Limiter, why.Permits = e.limits.name, req.permits
	if e.limits.rate() {
		why.RetryAfter = lasts(e.limits.period()) // if nothing is known
		// An evicted request may fit now. If the store has refused it although it fits, nothing is known.
		if at, ok := e.queue.servedAtLocked(req, now); ok && (at.After(now) || why.Reason == core.ReasonEvicted) {
			why.RetryAfter = lasts(max(microseconds(at.Sub(now)), 1))
		}
	}
	req.err = &why
	req.result.left, req.result.reset, req.result.window = e.memory.available(e.limits, now), e.memory.reset(now), e.memory.window
	e.decideLocked(req, rejected)
}

// unreachableLocked has Unavailable decide the request.
func (e *Limiter) unreachableLocked(req *request, err error) {
	if e.options.Unavailable == FailClosed {
		e.rejected.Add(1)
		e.failLocked(req, err)
		return
	}
	e.decideLocked(req, unreachable)
}

// abandon drops a request whose caller gives up, and reports whether it was undecided.
func (e *Limiter) abandon(req *request) bool {
	e.mu.Lock()
	defer e.unlock()
	if req.stage.decided() {
		return false
	}
	if q := &e.queue; req.stage == queued {
		first := req.permits > 0 && req == q.head(e.limits.order)
		q.removeLocked(req)
		q.asks = q.asks || first && q.permits > 0 // others may be served now
	}
	req.stage = abandoned
	return true
}

// returnLocked returns the permits of a grant that no caller is left to take.
func (e *Limiter) returnLocked(req *request) {
	switch {
	case req.permits == 0:
	case req.lease != nil:
		e.keeper.endLocked(req.lease, released)
		e.addLocked(e.keeper.release(req.lease), time.Now())
	default:
		e.memory.forget()
		e.addLocked(giveOp(int64(req.permits), req.result.stamp), time.Now())
	}
}

// leaseOf returns the lease of a decided request, unless Unavailable decides it.
func (e *Limiter) leaseOf(req *request) core.Lease {
	switch {
	case req.stage == granted:
		return e.grantOf(req)
	case req.stage == rejected:
		return req.rejection()
	case errors.Is(req.err, ErrStore):
		return core.Fail(req.err).With(req.limits.appendMetadata(nil, 0)...)
	}
	return core.Fail(req.err)
}

func (e *Limiter) grantOf(req *request) core.Lease {
	e.granted.Add(1)
	room := [7]core.Metadata{}
	m := req.appendMetadata(room[:0])
	if req.lease != nil {
		m = append(m, FencingToken.With(uint64(req.lease.token)))
		return core.GrantFrom(&holding{e, []*lease{req.lease}}, req.permits, m...)
	}
	if e.kind == kindConcurrency {
		return core.GrantFrom(&holding{e: e}, req.permits, m...)
	}
	req.grant = grant{e: e, limits: req.limits, certain: int64(req.permits), stamp: req.result.stamp}
	return core.GrantFrom(&req.grant, req.permits, m...)
}

func (req *request) rejection() core.Lease {
	why := req.err.(*core.RejectedError) //nolint:errorlint // it is not wrapped
	room := [7]core.Metadata{core.ReasonPhrase.With(why.Reason)}
	m := room[:1]
	if why.RetryAfter > 0 {
		m = append(m, core.RetryAfter.With(why.RetryAfter))
	}
	return core.Fail(why).With(req.appendMetadata(m)...)
}

// appendMetadata appends the metadata that every lease has, and the permits that were left after the decision.
func (req *request) appendMetadata(m []core.Metadata) []core.Metadata {
	m = append(req.limits.appendMetadata(m, req.result.window), core.Remaining.With(min(req.result.left, req.limits.limit)))
	if req.limits.rate() {
		m = append(m, core.ResetAfter.With(lasts(req.result.reset)))
	}
	return m
}

// unrecorded returns the lease of FailOpen, which holds nothing.
func (e *Limiter) unrecorded(req *request) core.Lease {
	e.granted.Add(1)
	return core.GrantFrom(&grant{e: e, limits: req.limits}, req.permits, req.limits.appendMetadata(nil, 0)...)
}

// count counts the decision of Options.Local.
func (e *Limiter) count(l core.Lease) core.Lease {
	if l.Acquired() {
		e.granted.Add(1)
	} else if errors.Is(l.Err(), core.ErrRejected) {
		e.rejected.Add(1)
	}
	return l
}
