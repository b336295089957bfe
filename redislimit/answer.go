package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// failLocked decides all requests of a call that failed. Waiters wait on.
func (e *engine) failLocked(c *call, err error) {
	for _, r := range c.requests {
		if r.id != 0 && r.code != opRenew && r.code != opRelease {
			e.orphanLocked(r.id) // it may have been granted
		}
		e.unansweredLocked(r, err)
	}
}

// unansweredLocked decides a request that the store has not answered, or was not asked. A waiter waits on.
func (e *engine) unansweredLocked(r *request, err error) {
	if r.code == opRelease {
		e.releaseAgainLocked(release{id: r.id, known: true, until: r.lease.until})
	}
	switch {
	case r.stage != asking:
	case r.code == opTake:
		e.unreachableLocked(r, err)
	default:
		r.err = err
		e.decideLocked(r, unreachable)
	}
}

// answerLocked deals with the answers, in order.
func (e *engine) answerLocked(c *call, now time.Time) {
	e.learnLocked(c, now)
	var again []*request
	blocked, served, came := false, 0, false
	for i, r := range c.requests {
		a := c.reply.answers[i]
		switch {
		case r.code != opTake:
			if e.doneLocked(c, r, a) {
				came, e.memory.refused = true, refusal{}
			}
		case a.done == 1:
			if e.grantLocked(c, r, a) && i >= len(c.requests)-c.waiters {
				served++
			}
		case blocked && r.stage == asking && r.permits > 0 && a.left >= int(r.permits) && e.queue.permits == 0:
			again = append(again, r) // refused only for somebody who went away
		default:
			e.refusedLocked(r, a, now)
		}
		blocked = blocked || r.code == opTake && a.done == 0 && r.flags&flagBlocks != 0
	}
	if len(again) > 0 {
		e.next = append(again, e.next...)
	}
	last := c.reply.answers[len(c.reply.answers)-1]
	if last.left > 0 && (e.queue.permits == 0 || c.waiters > 0) {
		for r := waiter(e.queue.zeroPermits.Front()); r != nil; r = waiter(e.queue.zeroPermits.Front()) {
			e.granted++
			r.answer = answer{left: last.left, reset: last.reset, window: last.window}
			e.decideLocked(r, granted)
		}
	}
	e.askWaiters = e.askWaiters || !e.queue.empty() && (came || served == mostAsked)
}

// learnLocked remembers what the answers say of the limit.
func (e *engine) learnLocked(c *call, now time.Time) {
	r := &c.reply
	last := r.answers[len(r.answers)-1]
	m := &e.memory
	m.at, m.left, m.whole = now, last.left, later(now, last.reset)
	m.forecast = r.forecast
	if m.window = r.window; c.terms.ofCalendar() {
		m.ahead = time.UnixMicro(r.now).Sub(now.Round(0))
	}
	if c.terms != e.terms { // an Update came between
		m.forget()
		m.window = 0
	}
	if !m.forecast.known {
		m.refused = refusal{}
	}
	if l := &e.leases; l.clock.stepped(r.now, c.sent, now, e.shared.TTL/10) && len(l.all) > 0 {
		l.renewer.at = now
		l.renewer.wakeUp()
	}
}

// conflictLocked decides all requests of a call whose key holds another kind of limit.
func (e *engine) conflictLocked(c *call) {
	err := fmt.Errorf("redislimit: the key %q holds %v, want %v", e.shared.Key, c.reply.conflict, c.terms.kind)
	for _, r := range c.requests {
		if r.stage == asking {
			e.refuseLocked(r, err)
		}
	}
}

// grantLocked deals with a granted request, and reports whether its caller has it.
func (e *engine) grantLocked(c *call, r *request, a answer) bool {
	select {
	case <-r.leaves: // however late its goroutine notices
		if r.stage != decided {
			e.leaveLocked(r)
		}
	default:
	}
	keeps := r.stage == asking || r.stage == queued
	if !keeps {
		r = newRequest(r.op) // what r was decided to be is its caller's
	}
	r.answer = a
	if r.id != 0 {
		r.held = e.holdLocked(r, c.sent)
	}
	if !keeps {
		e.returnLocked(r)
		return false
	}
	e.granted++
	e.memory.prefetch.used += r.permits
	e.decideLocked(r, granted)
	return true
}

// refusedLocked deals with a request that the store refused.
func (e *engine) refusedLocked(r *request, a answer, now time.Time) {
	r.answer, r.ready = a, time.Time{}
	if a.retry > 0 {
		r.ready = later(now, a.retry)
		if e.terms.rate() && e.memory.forecast.known {
			e.memory.refused = refusal{max(int(r.permits), 1), r.ready}
			if soon := now.Add(forgetAfter); e.terms.ofCalendar() && r.ready.After(soon) {
				e.memory.refused.until = soon
			}
		}
	}
	switch {
	case r.stage != asking: // it waits, or is gone
	case e.closed:
		e.refuseLocked(r, core.ErrClosed)
	default:
		e.missLocked(r, now)
	}
}

// doneLocked deals with the answer to what is no request for permits, and reports whether
// permits may have come back.
func (e *engine) doneLocked(c *call, r *request, a answer) (came bool) {
	r.answer = a
	if r.code == opCharge && r.id != 0 {
		r.held = e.holdLocked(r, c.sent)
	}
	if r.stage == asking {
		e.decideLocked(r, granted)
	}
	switch r.code {
	case opPrefetch:
		if a.done > 0 {
			e.prefetchedLocked(c, a)
		}
	case opBind, opReset:
		return true
	case opRenew:
		e.renewedLocked(r.lease, a, c.sent)
		return true
	case opGive, opReturn, opRelease:
		came = a.done > 0
	case opLook, opTake, opCharge:
	}
	return came
}

// prefetchedLocked puts what was taken in advance at the disposal of the next requests.
func (e *engine) prefetchedLocked(c *call, a answer) {
	p := &e.memory.prefetch
	ends := a.reset
	if c.terms.window() {
		ends = c.reply.ends
	}
	// It counts from before the call was sent: the server's instant was not earlier.
	p.permits, p.stamp, p.until = a.done, a.stamp, later(c.sent, ends)
	switch {
	case e.closed: // Close waits for this call, and for what it leads to
		p.unused = true
	case p.timer == nil:
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.giveBackUnused)
	}
}

// giveBackUnused gives back what was prefetched if nothing of it was spent since the latest look: within twice unusedAfter once
// nobody asks.
func (e *engine) giveBackUnused() {
	e.mu.Lock()
	defer e.unlock()
	p := &e.memory.prefetch
	p.timer = nil
	if p.left(time.Now()) == 0 {
		return
	}
	if p.spent && !e.closed {
		p.spent = false
		p.timer = time.AfterFunc(unusedAfter, e.giveBackUnused)
		return
	}
	p.unused = true
}
