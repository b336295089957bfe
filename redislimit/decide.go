package redislimit

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// admitLocked reports whether the store is to be asked for a newcomer, and decides it if not.
func (e *engine) admitLocked(t *take, now time.Time) bool {
	switch n := t.permits; {
	case e.closed:
		e.refuseLocked(t, core.ErrClosed)
	case n > e.limits.limit:
		e.refuseLocked(t, &core.ExceedsLimitError{Limiter: e.limits.name, Permits: n, Limit: e.limits.limit})
	case n > 0 && e.queue.permits > 0 && e.limits.order == core.OldestFirst:
		e.missLocked(t, now) // nobody overtakes
	default:
		if err := e.breaker.rejects(now); err != nil {
			e.unreachableLocked(t, err)
			return false
		}
		return true
	}
	return false
}

// missLocked rejects or queues a take of permits that are not available.
func (e *engine) missLocked(t *take, now time.Time) {
	if t.waits {
		e.queue.admitLocked(t, now)
	} else {
		e.rejectLocked(t, now, core.ReasonExhausted)
	}
}

// decideLocked ends t.
func (e *engine) decideLocked(t *take, out outcome) {
	if t.stage == queued {
		e.queue.removeLocked(t)
	}
	t.stage, t.outcome, t.limits = decided, out, e.limits
	if t.done != nil {
		e.woken = append(e.woken, t.done)
	}
}

func (e *engine) refuseLocked(t *take, err error) {
	t.err = err
	e.decideLocked(t, refused)
}

// rejectLocked decides that the limit has no room for t.
func (e *engine) rejectLocked(t *take, now time.Time, reason string) {
	e.rejected++
	t.reason = reason
	if e.limits.rate() {
		t.retry = lasts(e.limits.period()) // if nothing is known
		// An evicted one may fit now; but if the store has said that it does not, nothing is known.
		if due, ok := e.queue.dueLocked(t, now); ok && (due.After(now) || reason == core.ReasonEvicted) {
			t.retry = lasts(max(microseconds(due.Sub(now)), 1))
		}
	}
	t.answer.left, t.answer.reset, t.answer.window = e.memory.available(e.limits, now), e.memory.reset(now), e.memory.window
	e.decideLocked(t, rejected)
}

// unreachableLocked has Unavailable decide t.
func (e *engine) unreachableLocked(t *take, err error) {
	switch e.shared.Unavailable {
	case FailClosed:
		e.rejected++
		e.refuseLocked(t, err)
		return
	case FailOpen:
		e.granted++
	case UseLocal: // counted when Local has decided
	}
	e.decideLocked(t, unreachable)
}

// leave takes t out if it is not decided; its caller goes away.
func (e *engine) leave(t *take) bool {
	e.mu.Lock()
	defer e.unlock()
	if t.stage == decided {
		return false
	}
	e.leaveLocked(t)
	return true
}

func (e *engine) leaveLocked(t *take) {
	if q := &e.queue; t.stage == queued {
		first := t.permits > 0 && t == q.head(e.limits.order)
		q.removeLocked(t)
		q.asks = q.asks || first && q.permits > 0 // others may be served now
	}
	t.stage = gone
}

// returnLocked gives back what was granted to t and nobody has. The grant stays counted, if it
// was: counts do not fall.
func (e *engine) returnLocked(t *take) {
	switch {
	case t.permits == 0:
	case t.lease != nil:
		t.lease.freed = true
		e.keeper.endLocked(t.lease, released)
		e.addLocked(e.keeper.release(t.lease), time.Now())
	default:
		e.memory.forget()
		e.addLocked(giveBack(int64(t.permits), t.answer.stamp), time.Now())
	}
}

// leaseOf returns the lease of a decided take that Unavailable does not decide.
func (e *engine) leaseOf(t *take) core.Lease {
	switch t.outcome {
	case granted:
		return e.grantOf(t)
	case rejected:
		return t.rejection()
	case refused, unreachable:
	}
	l := core.Fail(t.err)
	if errors.Is(t.err, ErrStore) {
		l = l.With(t.limits.said(nil, 0)...)
	}
	return l
}

func (e *engine) grantOf(t *take) core.Lease {
	room := [7]core.Metadata{}
	m := t.numbers(room[:0])
	if t.lease != nil {
		m = append(m, FencingToken.With(uint64(t.lease.token)))
		return t.lease.handle().grant(t.permits, m...)
	}
	g := &grant{e: e, certain: int64(t.permits), stamp: t.answer.stamp}
	return core.Grant(t.permits, nil, append(m, grantKey.With(g))...)
}

func (t *take) rejection() core.Lease {
	room := [7]core.Metadata{core.ReasonPhrase.With(t.reason)}
	m := room[:1]
	if t.retry > 0 {
		m = append(m, core.RetryAfter.With(t.retry))
	}
	err := &core.RejectedError{
		Limiter: t.limits.name, Permits: t.permits, Reason: t.reason, Detail: t.detail, RetryAfter: t.retry, Cause: t.err,
	}
	return core.Fail(err).With(t.numbers(m)...)
}

// numbers appends what every lease says, and what was left after the decision.
func (t *take) numbers(m []core.Metadata) []core.Metadata {
	m = append(t.limits.said(m, t.answer.window), core.Remaining.With(min(t.answer.left, t.limits.limit)))
	if t.limits.rate() {
		m = append(m, core.ResetAfter.With(lasts(t.answer.reset)))
	}
	return m
}

// unrecorded returns the lease of FailOpen, which holds nothing.
func (e *engine) unrecorded(t *take) core.Lease {
	return core.Grant(t.permits, nil, append(t.limits.said(nil, 0), grantKey.With(&grant{e: e}))...)
}

// count counts what Shared.Local decided.
func (e *engine) count(l core.Lease) core.Lease {
	e.mu.Lock()
	defer e.unlock()
	if l.Acquired() {
		e.granted++
	} else if errors.Is(l.Err(), core.ErrRejected) {
		e.rejected++
	}
	return l
}

// saturated returns a + b, at most math.MaxInt.
func saturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
