package redislimit

import (
	"slices"
	"time"
)

const (
	askEvery   = time.Second // the longest time between two calls for the waiters
	maxWaiters = 64          // waiters in a call
)

// waiters says when the store is asked for the waiters, which are in the queue. The engine's mutex guards it.
type waiters struct {
	asks     bool        // the next call asks for them
	served   int         // number of requests served in the latest call
	asked    time.Time   // when the store was last asked for waiters, or the first one came; zero if no caller waits
	answered time.Time   // when the latest reply about them came
	askAt    time.Time   // when to ask for them
	timer    *time.Timer // nil until it is needed
	timerAt  time.Time   // when the timer fires; zero if it is not set
	listener listener
}

// asksLocked implements host.
func (e *Limiter) asksLocked() bool { return e.asks || len(e.cache.tickets.back) > 0 }

// fillLocked implements host: it adds the tickets that go back, the waiters, and permits to prefetch.
func (e *Limiter) fillLocked(c *call) {
	c.limits, c.ahead = e.limits, e.cache.ahead
	if e.asks {
		e.asks, e.asked, e.served = false, c.sent, 0
		if e.client.blockedLocked(c.sent) == nil {
			e.askForWaitersLocked(c)
		}
	}
	c.ops = slices.Insert(c.ops, 0, e.cache.tickets.back...)
	e.cache.tickets.back = nil
	if len(c.ops) == 0 {
		return
	}
	permits := int64(0)
	for _, o := range c.ops {
		permits += int64(o.permits)
	}
	p := &e.cache.prefetch
	if n := p.empty(c.sent); n > 0 {
		back := e.task(giveOp(n, p.stamp))
		c.ops = slices.Insert(c.ops, c.firsts(), &back.operation)
	}
	n := p.wanted(e.limits, e.options.Prefetch, permits, c.sent)
	if n > 0 && !e.closed && e.queue.Empty() && len(e.client.sent) == 0 {
		o := prefetchOp(n)
		o.asker = prefetching{e}
		c.ops = append(c.ops, &o)
	}
}

// askForWaitersLocked adds up to maxWaiters waiters, and one for zero permits.
func (e *Limiter) askForWaitersLocked(c *call) {
	n, have := 0, e.cache.tickets.permits()
	for permits := range e.queue.Waiters {
		o := &operation{permits: permits, flags: flagWaited, asker: waiting{e}}
		if permits > 0 && e.promisedLocked() {
			if have -= permits; have >= 0 {
				continue // it has a ticket
			}
			o.flags |= flagLater
			o.after = e.cache.tickets.last()
		}
		if permits > 0 {
			n++
			if n > maxWaiters {
				continue
			}
			o.flags |= flagBlocks
		}
		e.keeper.nameLocked(o)
		c.ops = append(c.ops, o)
	}
}

// prefetching is the asker of an operation that prefetches.
type prefetching struct{ e *Limiter }

func (prefetching) wanted(*operation, time.Time) bool { return true }

func (p prefetching) ended(_ *operation, c *call, got result) {
	e := p.e
	if c.err != nil || got.done == 0 {
		return
	}
	if c.limits != e.limits && !c.limits.sameRate(e.limits) { // there was an Apply since the call was sent
		return
	}
	ends, now := got.reset, time.Now()
	if c.limits.window() {
		ends = c.reply.ends
	}
	e.cache.prefetch.put(got, ends, c.sent, now)
	if e.closed { // Close waits for this call, and for the one that returns the permits
		e.giveBackLocked(e.cache.prefetch.empty(now), now)
	}
}

func (e *Limiter) giveBackLocked(n int64, now time.Time) {
	if n > 0 {
		e.addLocked(e.task(giveOp(n, e.cache.prefetch.stamp)), now)
	}
}

// learnLocked implements host.
func (e *Limiter) learnLocked(c *call) {
	e.cache.learn(&c.reply, c.limits, c.at)
	if last := c.reply.last; last.left > 0 && e.queue.Queued() == 0 {
		e.serveZeroLocked(last)
	}
}

// setTimerLocked sets the timer to when the first ticket is due or the store is to be asked for a waiter; or to when prefetched permits
// are to be returned.
func (e *Limiter) setTimerLocked() {
	at := e.cache.prefetch.lookAt
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	switch {
	case !e.queue.Waiting():
		e.asked, e.askAt = time.Time{}, time.Time{}
		e.listener.stopLocked()
	case e.asks || e.client.calling > 0: // the end of the call sets when to ask
		e.askAt = time.Time{}
	case e.missesLocked():
		e.askAt = e.askAtLocked()
		earlier(e.askAt)
	default:
		e.askAt = time.Time{}
	}
	if out := e.cache.tickets.out; len(out) > 0 && e.queue.Waiting() { // nobody waits for a reservation
		earlier(out[0].at)
	}
	if at.Equal(e.timerAt) {
		return
	}
	e.timerAt = at
	switch d := time.Until(at); {
	case at.IsZero():
		e.timer.Stop()
	case e.timer == nil:
		e.timer = time.AfterFunc(d, e.onTimer)
	default:
		e.timer.Reset(d)
	}
}

// askAtLocked returns when to ask for the waiters that have no ticket: when the first can be served, but at most a second after the
// latest call for waiters.
func (e *Limiter) askAtLocked() time.Time {
	now := time.Now()
	if e.asked.IsZero() {
		e.asked = now
	}
	if retry := e.client.breaker.retryTime(now); !retry.IsZero() {
		return retry
	}
	at := e.asked.Add(askEvery)
	earlier := func(ready time.Time, ok bool) {
		// If the store refused at the very time that it had named, it is not called again until it says another one.
		if ok && ready.Before(at) && (ready.After(e.cache.at) || e.cache.at.After(e.answered)) {
			at = ready
		}
	}
	if w := e.queue.Head(); w != nil && len(e.cache.tickets.out) == 0 {
		earlier(e.cache.readyAt(w.N, e.cache.at))
	}
	if e.queue.ZeroWaits() { // for a permit, promised or not
		c := e.cache
		c.forecast = c.unpromised()
		earlier(c.readyAt(1, e.cache.at))
	}
	return at
}

func (e *Limiter) onTimer() {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	e.timerAt = time.Time{}
	e.giveBackLocked(e.cache.prefetch.look(now), now)
	e.redeemLocked()
	if !e.askAt.IsZero() && !e.askAt.After(now) {
		e.cache.tickets.stalled = time.Time{}
		e.asks = e.asks || !e.queue.Empty()
	}
}

// ask has the store asked for the waiters. The listener calls it when a release is published.
func (e *Limiter) ask() {
	e.mu.Lock()
	defer e.unlock()
	e.asks = !e.queue.Empty()
}
