package redislimit

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// failLocked ends a call that did nothing, or that is not known to have. Waiters wait on.
func (p *pipeline) failLocked(c *call, err error) {
	for _, o := range c.ops {
		p.e.endLocked(o, c.sent, answer{}, err)
	}
	for _, t := range c.takes {
		conflict := !errors.Is(err, ErrStore)
		if t.id != 0 && !conflict {
			p.e.keeper.orphanLocked(t.id) // it may have been granted
		}
		switch {
		case t.stage != asking:
		case conflict:
			p.e.refuseLocked(t, err)
		default:
			p.e.unreachableLocked(t, err)
		}
	}
}

// dealLocked deals out the answers, in order.
func (p *pipeline) dealLocked(c *call, now time.Time) {
	e := p.e
	p.learnLocked(c, now)
	freed := false
	for i, o := range c.ops {
		a := c.reply.ops[i]
		e.endLocked(o, c.sent, a, nil)
		freed = freed || o.frees && a.done > 0
	}
	if freed {
		e.memory.refused = refusal{}
	}
	served := p.dealTakesLocked(c, now)
	if a := c.reply.prefetched; c.prefetch > 0 && a.done > 0 {
		e.prefetchedLocked(c, a)
	}
	if last := c.reply.last; last.left > 0 && (e.queue.permits == 0 || c.waiters > 0) {
		for t := waiter(e.queue.zeroPermits.Front()); t != nil; t = waiter(e.queue.zeroPermits.Front()) {
			e.granted++
			t.answer = answer{left: last.left, reset: last.reset, window: last.window}
			e.decideLocked(t, granted)
		}
	}
	e.queue.asks = e.queue.asks || !e.queue.empty() && (freed || served == mostAsked)
}

// dealTakesLocked deals out the takes' answers, and returns how many waiters were served.
func (p *pipeline) dealTakesLocked(c *call, now time.Time) (served int) {
	e := p.e
	var again []*take
	blocked := false
	for i, t := range c.takes {
		a := c.reply.takes[i]
		switch {
		case a.done == 1:
			if p.grantLocked(c, t, a) && i >= len(c.takes)-c.waiters {
				served++
			}
		case blocked && t.stage == asking && t.permits > 0 && a.left >= t.permits && e.queue.permits == 0:
			again = append(again, t) // refused only for somebody who went away
		default:
			p.refusedLocked(t, a, now)
		}
		blocked = blocked || a.done == 0 && t.flags&flagBlocks != 0
	}
	p.takes = slices.Insert(p.takes, 0, again...)
	return served
}

// learnLocked remembers what the answers say of the limit.
func (p *pipeline) learnLocked(c *call, now time.Time) {
	e := p.e
	r, m := &c.reply, &e.memory
	m.at, m.left, m.fullAt = now, r.last.left, later(now, r.last.reset)
	m.forecast = r.forecast
	if m.window = r.window; c.limits.ofCalendar() {
		m.ahead = time.UnixMicro(r.now).Sub(now.Round(0))
	}
	if c.limits != e.limits { // an Update came between
		m.forget()
		m.window = 0
	}
	if !m.forecast.known {
		m.refused = refusal{}
	}
	e.keeper.learnLocked(r.now, c.sent, now)
}

// grantLocked deals with a take that was granted, and reports whether its caller has it.
func (p *pipeline) grantLocked(c *call, t *take, a answer) bool {
	e := p.e
	if t.hasLeft() && t.stage != decided {
		e.leaveLocked(t)
	}
	keeps := t.stage == asking || t.stage == queued
	if !keeps {
		t = &take{permits: t.permits, id: t.id} // what it was decided to be is its caller's
	}
	t.answer = a
	if t.id != 0 {
		t.lease = e.keeper.holdLocked(t.id, int64(t.permits), a, c.sent)
	}
	if !keeps {
		e.returnLocked(t)
		return false
	}
	e.granted++
	e.memory.prefetch.used += int64(t.permits)
	e.decideLocked(t, granted)
	return true
}

// refusedLocked deals with a take that the store refused.
func (p *pipeline) refusedLocked(t *take, a answer, now time.Time) {
	e := p.e
	t.answer, t.ready = a, time.Time{}
	if a.retry > 0 {
		t.ready = later(now, a.retry)
		if e.limits.rate() && e.memory.forecast.known {
			e.memory.refused = refusal{max(t.permits, 1), t.ready}
			if soon := now.Add(forgetAfter); e.limits.ofCalendar() && t.ready.After(soon) {
				e.memory.refused.until = soon
			}
		}
	}
	switch {
	case t.stage != asking: // it waits, or is gone
	case e.closed:
		e.refuseLocked(t, core.ErrClosed)
	default:
		e.missLocked(t, now)
	}
}
