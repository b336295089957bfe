package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// statisticsEvery is how often Statistics asks the store at most.
const statisticsEvery = 100 * time.Millisecond

// Available asks the store how many permits could be taken now, within [Shared].Budget. While
// the store is unreachable it returns what was known last.
func (e *engine) Available() int {
	if e.shared.Store == nil {
		return 0
	}
	e.decide(newRequest(op{code: opLook}))
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memory.available(e.terms, time.Now())
}

// Statistics returns the limiter's counts, which are those of this process, and what is
// available to all. It asks the store if the latest answer is older than 100 ms, and every 100
// ms at most; else, and while the store is unreachable, Available is what is known. It works
// after Close.
func (e *engine) Statistics() core.Statistics {
	if e.shared.Store == nil {
		return core.Statistics{}
	}
	e.mu.Lock()
	now := time.Now()
	stale := now.Sub(e.memory.at) >= statisticsEvery && now.Sub(e.looked) >= statisticsEvery
	if stale {
		e.looked = now
	}
	e.mu.Unlock()
	if stale {
		e.decide(newRequest(op{code: opLook}))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.statisticsLocked()
}

func (e *engine) statisticsLocked() core.Statistics {
	return core.Statistics{
		Limit: e.terms.limit, Available: e.memory.available(e.terms, time.Now()), Queued: e.queue.permits,
		Granted: e.granted, Rejected: e.rejected,
	}
}

// IdleFor returns how long this process has known all permits to be available, and whether it
// does. It never asks the store. A rate limiter is idle once what this process knows to be taken
// has come back, a concurrency limiter while this process holds no lease.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.shared.Store == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now, from := time.Now(), e.memory.whole
	if !e.terms.rate() {
		from = e.leases.since
	}
	if now.Before(from) || len(e.leases.all) > 0 || !e.queue.empty() || e.memory.prefetch.left(now) > 0 {
		return 0, false
	}
	return now.Sub(from), true
}

// Close ends every wait with [core.ErrClosed], gives back what was prefetched, and refuses from
// then on. Leases stay held, and are renewed, until they are released; the store stays open.
// Close returns nil, when what was prefetched is back or Budget is over.
func (e *engine) Close() error {
	if e.shared.Store == nil {
		return nil
	}
	ends := e.close()
	defer e.guard.close()
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

// close closes the limiter, and returns what is closed when its goroutines have ended.
func (e *engine) close() (ends []chan struct{}) {
	e.mu.Lock()
	defer e.unlock()
	e.closed = true
	q, l := &e.queue, &e.leases
	for r := q.oldest(); r != nil; r = q.oldest() {
		e.refuseLocked(r, core.ErrClosed)
	}
	for r := waiter(q.zeroPermits.Front()); r != nil; r = waiter(q.zeroPermits.Front()) {
		e.refuseLocked(r, core.ErrClosed)
	}
	e.askWaiters = false
	p := &e.memory.prefetch
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.unused = p.left(time.Now()) > 0 && e.guard.refuses(time.Now()) == nil
	e.unlistenLocked()
	if e.listener.ended != nil {
		ends = append(ends, e.listener.ended)
	}
	if reported := e.guard.reported(); reported != nil {
		ends = append(ends, reported)
	}
	if e.calling || e.asksLocked() {
		if e.rests == nil {
			e.rests = make(chan struct{})
		}
		ends = append(ends, e.rests)
	}
	known := l.releases[:0]
	for _, r := range l.releases {
		if r.known {
			known = append(known, r)
		}
	}
	if l.releases = known; l.renewer != nil && len(l.all)+len(l.releases) == 0 {
		l.renewer.wakeUp()
		ends = append(ends, l.renewer.done)
	}
	return ends
}

// update puts new terms in force; apply is called with the mutex held.
func (e *engine) update(t *terms, apply func()) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return core.ErrClosed
	}
	r := newRequest(op{code: opLook})
	if t.rate() {
		r.op = op{code: opBind, old: e.terms}
	}
	apply()
	e.terms = t
	e.memory.forget()
	e.memory.window = 0
	for place := e.queue.waiters.Front(); place != nil; {
		w := waiter(place)
		place = place.Next()
		if int(w.permits) > t.limit {
			e.refuseLocked(w, &core.ExceedsLimitError{Limiter: t.name, Permits: int(w.permits), Limit: t.limit})
		}
	}
	e.beginLocked(r, time.Now())
	e.askWaiters = e.askWaiters || !e.queue.empty()
	e.finish(r)
	return nil
}
