package redislimit

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// failLocked ends a call that had no effect, or whose effect is not known. Waiters keep waiting.
func (p *pipeline) failLocked(c *call, err error) {
	for _, o := range c.ops {
		p.e.finishLocked(o, c.sent, result{}, err)
	}
	for _, req := range c.requests {
		conflict := !errors.Is(err, ErrStore)
		if req.id != 0 && !conflict {
			p.e.keeper.orphanLocked(req.id) // it may have been granted
		}
		switch {
		case req.stage != asking:
		case conflict:
			p.e.failLocked(req, err)
		default:
			p.e.unreachableLocked(req, err)
		}
	}
}

// deliverLocked distributes the results of a call, in order.
func (p *pipeline) deliverLocked(c *call, now time.Time) {
	e := p.e
	p.learnLocked(c, now)
	freed := false
	for i, o := range c.ops {
		got := c.performed(i)
		e.finishLocked(o, c.sent, got, nil)
		freed = freed || o.frees && got.done > 0
	}
	if freed {
		e.memory.refusal = refusal{}
	}
	served := 0 // waiters
	for i, got := range c.results {
		req := c.requests[i]
		if got.done == 0 {
			p.refuseLocked(req, got, now)
		} else if p.grantLocked(c, req, got) && i >= len(c.requests)-c.waiters {
			served++
		}
	}
	if c.prefetch > 0 {
		e.prefetchedLocked(c)
	}
	if last := c.reply.last; last.left > 0 && (e.queue.permits == 0 || c.waiters > 0) {
		for req := waiter(e.queue.zeroPermits.Front()); req != nil; req = waiter(e.queue.zeroPermits.Front()) {
			req.result = result{left: last.left, reset: last.reset, window: last.window}
			e.decideLocked(req, granted)
		}
	}
	e.queue.asks = e.queue.asks || !e.queue.empty() && (freed || served == maxWaiters)
}

// learnLocked remembers the state of the limit that the reply reports.
func (p *pipeline) learnLocked(c *call, now time.Time) {
	e := p.e
	r, m := &c.reply, &e.memory
	m.at, m.left, m.fullAt = later(now, 0), r.last.left, later(now, r.last.reset)
	m.forecast = r.forecast
	if m.window = r.window; c.limits.ofCalendar() {
		m.ahead = time.UnixMicro(r.now).Sub(now.Round(0))
	}
	if c.limits != e.limits { // there was an Update since the call was sent
		m.forget()
		m.window = 0
	}
	if !m.forecast.known {
		m.refusal = refusal{}
	}
}

// grantLocked handles a request that the store granted, and reports whether its caller takes the grant.
func (p *pipeline) grantLocked(c *call, req *request, got result) bool {
	e := p.e
	wanted := req.stage == asking || req.stage == queued
	if !wanted {
		req = &request{permits: req.permits, id: req.id} // the caller of a decided request may be reading it
	}
	req.result = got
	if req.id != 0 {
		req.lease = e.keeper.holdLocked(req.id, int64(req.permits), got, c.sent)
	}
	if !wanted {
		e.returnLocked(req)
		return false
	}
	e.memory.prefetch.used += int64(req.permits)
	e.decideLocked(req, granted)
	return true
}

// refuseLocked handles a request that the store refused.
func (p *pipeline) refuseLocked(req *request, got result, now time.Time) {
	e := p.e
	req.result, req.retryAt = got, time.Time{}
	if got.retry > 0 {
		req.retryAt = later(now, got.retry)
		if e.limits.rate() && e.memory.forecast.known {
			e.memory.refusal = refusalOf(req.permits, req.retryAt, now)
		}
	}
	switch {
	case req.stage != asking: // it is queued already, or abandoned
	case e.closed:
		e.failLocked(req, core.ErrClosed)
	default:
		e.missLocked(req, now)
	}
}
