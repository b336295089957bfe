package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// statisticsEvery is how often Statistics asks the store, at most.
const statisticsEvery = 100 * time.Millisecond

// Available asks the store how many permits could be taken now, within [Shared].Budget.
// While the store is away it is what was known last.
func (e *engine) Available() int {
	if e.shared.Store == nil {
		return 0
	}
	e.look()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leftLocked(time.Now())
}

// look asks the store what is there.
func (e *engine) look() {
	e.ask(&op{kind: opLook})
}

// ask has the store asked for o, if it is not away, and waits for the answer.
func (e *engine) ask(o *op) {
	e.mu.Lock()
	now := time.Now()
	o.due = now.Add(e.shared.Budget)
	if e.breaker.pass(o, now) {
		e.askLocked(o)
	} else {
		o.decided = true
	}
	e.unlockFor(o, true)
	if o.done != nil {
		<-o.done
	}
}

// Statistics returns the limiter's counts, which are this process' own, and what is
// available over all. It asks the store if it has not answered for 100 ms, and every 100 ms
// at most; while the store is away, or another call asks, Available is what was known last. The
// counts go on after Close.
func (e *engine) Statistics() core.Statistics {
	if e.shared.Store == nil {
		return core.Statistics{}
	}
	e.mu.Lock()
	now := time.Now()
	stale := now.Sub(e.known.told) >= statisticsEvery && now.Sub(e.looked) >= statisticsEvery
	if stale {
		e.looked = now
	}
	e.mu.Unlock()
	if stale {
		e.look()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return core.Statistics{
		Limit: e.t.limit, Available: e.leftLocked(time.Now()), Queued: e.queue.permits,
		Granted: e.granted, Rejected: e.rejected,
	}
}

// IdleFor returns how long this process has known all permits to be available, and whether
// it does. It never asks the store: a rate is idle when what this process knows to be taken
// has come back, a concurrency limit while this process holds no lease.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.shared.Store == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now, from := time.Now(), e.known.whole
	if !e.t.timed() {
		from = e.leases.since
	}
	if now.Before(from) || len(e.leases.all) > 0 || !e.queue.empty() || e.stock.left(now) > 0 {
		return 0, false
	}
	return now.Sub(from), true
}

// Close ends the wait of all who wait with [core.ErrClosed], gives back what was fetched
// ahead, and refuses from then on. Leases stay held, and are renewed, until they are
// released; the store stays open. It returns nil, when what was fetched is back or Budget is
// over.
func (e *engine) Close() error {
	if e.shared.Store == nil {
		return nil
	}
	e.mu.Lock()
	e.closed = true
	for e.queue.oldest != nil {
		e.refuseLocked(e.queue.oldest, core.ErrClosed)
	}
	for e.queue.probes != nil {
		e.refuseLocked(e.queue.probes, core.ErrClosed)
	}
	if s := &e.stock; s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if e.stock.left(time.Now()) > 0 && !e.breaker.down {
		e.stock.returning = true
		e.callLocked()
	}
	e.kick = false
	ends := e.endsLocked()
	e.unlock()
	e.locals.End(core.ErrClosed)
	timer := time.NewTimer(e.shared.Budget)
	defer timer.Stop()
	for _, done := range ends {
		select {
		case <-done:
		case <-timer.C:
			return nil
		}
	}
	return nil
}

// endsLocked returns what is closed when the goroutines have ended that nobody needs any more.
func (e *engine) endsLocked() (ends []chan struct{}) {
	e.unlistenLocked()
	if e.listener.ended != nil {
		ends = append(ends, e.listener.ended)
	}
	if e.teller != nil {
		ends = append(ends, e.teller)
	}
	if e.runner != nil {
		ends = append(ends, e.runner.endLocked())
	}
	if k := e.leases.keeper; k != nil && len(e.leases.all) == 0 && len(e.leases.untold) == 0 {
		ends = append(ends, k.done)
	}
	return ends
}

// update puts new terms in force.
func (e *engine) update(t *terms) error {
	o := &op{kind: opBind}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return core.ErrClosed
	}
	o.bind = e.t
	e.t = t
	e.refusals, e.known.forecast, e.queue.plan = nil, nil, nil
	for w := e.queue.oldest; w != nil; {
		next := w.next
		if int(w.n) > t.limit {
			e.refuseLocked(w, &core.ExceedsLimitError{Limiter: t.name, Permits: int(w.n), Limit: t.limit})
		}
		w = next
	}
	if t.kind != kindBucket {
		o.kind = opLook
	}
	now := time.Now()
	o.due = now.Add(e.shared.Budget)
	if e.breaker.pass(o, now) {
		e.kick = !e.queue.empty()
		e.askLocked(o)
	} else {
		o.decided = true
	}
	e.unlockFor(o, true)
	if o.done != nil {
		<-o.done
	}
	return nil
}

// describe returns a line for a person: what kind of limiter this is, and how it stands.
// The store is not asked.
func (e *engine) describe(kind string) string {
	if e.shared.Store == nil {
		return kind + " (not made by its constructor)"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.t.name != "" {
		kind += fmt.Sprintf(" %q", e.t.name)
	}
	return fmt.Sprintf("%s at %q: %v", kind, e.shared.Key, core.Statistics{
		Limit: e.t.limit, Available: e.leftLocked(time.Now()), Queued: e.queue.permits,
		Granted: e.granted, Rejected: e.rejected,
	})
}
