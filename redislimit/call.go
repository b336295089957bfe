package redislimit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// call is one call of the store. One is under way at a time; it asks for all that was gathered
// while the one before was.
type call struct {
	terms    *terms
	sent     time.Time
	deadline time.Time // the earliest end of a Budget in it
	requests []*request
	waiters  int // of them, in the queue
	args     []int64
	reply    reply
}

const (
	mostRequests = 2000 // in a call
	mostKept     = 64   // requests for which memory is kept from one call to the next
)

// asksLocked reports whether there is something to ask.
func (e *engine) asksLocked() bool {
	return len(e.next) > 0 || e.askWaiters || e.memory.prefetch.unused
}

// calls makes calls until there is nothing more to ask. Between two it yields, so that callers that
// were answered and ask again travel in the next one: BenchmarkTake/callers=64/keys=1 of bench/stores
// has 31 takes in a call without it, and 42 with it.
func (e *engine) calls() {
	for e.call() {
		runtime.Gosched()
	}
}

// lead makes one call, for a caller that would wait for it. Another goroutine makes the next ones.
func (e *engine) lead() {
	made := true
	defer func() { // if the store panics, too
		if made {
			e.mu.Lock()
			defer e.unlock()
			e.restLocked()
		}
	}()
	made = e.call()
}

// restLocked is for a goroutine that makes no more calls.
func (e *engine) restLocked() {
	e.calling = false
	if e.rests != nil && !e.asksLocked() {
		close(e.rests)
		e.rests = nil
	}
}

// call makes one call, and reports whether there was something to ask.
func (e *engine) call() bool {
	c := e.beginCall()
	if c == nil {
		return false
	}
	err := errPanicked
	defer func() { e.endCall(c, err) }()
	ctx, cancel := context.WithDeadline(context.Background(), c.deadline) //nolint:forbidigo // it is made for many callers
	defer cancel()
	err = e.guard.try(ctx, script{c.terms.script(), e.keys, c.args}, func(numbers []int64) (err error) {
		c.reply, err = c.terms.decode(numbers, c.requests, c.reply.answers)
		return err
	})
	return true
}

// beginCall returns the next call; nil: there is nothing to ask.
func (e *engine) beginCall() *call {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	c := &e.spare
	c.terms, c.sent, c.deadline, c.waiters = e.terms, now, now.Add(e.shared.Budget), 0
	if e.asksLocked() {
		e.fillLocked(c, now)
	}
	if len(c.requests) == 0 {
		e.restLocked()
		return nil
	}
	c.args = c.terms.encode(c.args[:0], e.holder, c.requests)
	return c
}

// fillLocked puts into the call what is to be asked.
func (e *engine) fillLocked(c *call, now time.Time) {
	c.requests = e.newcomersLocked(c, now)
	if e.askWaiters {
		e.askWaiters = false
		e.waitersLocked(c, now)
	}
	p := &e.memory.prefetch
	if len(c.requests) == 0 && !p.unused {
		return
	}
	takes := int64(0)
	for _, r := range c.requests {
		if r.code == opTake {
			takes += r.permits
		}
	}
	if back := p.giveBack(now); back != nil {
		at := 0 // behind what must come first
		for at < len(c.requests) && c.requests[at].first() {
			at++
		}
		c.requests = slices.Insert(c.requests, at, back)
	}
	if n := p.wanted(c.terms, e.shared.Ahead, takes, now); n > 0 && !e.closed && e.queue.empty() {
		c.requests = append(c.requests, newRequest(op{code: opPrefetch, permits: n}))
	}
}

// first reports whether the operation comes before all others in its call.
func (r *request) first() bool { return r.code == opBind || r.code == opReset }

// newcomersLocked returns the requests that were gathered.
func (e *engine) newcomersLocked(c *call, now time.Time) []*request {
	requests, room, firsts := c.requests, e.terms.queueLimit-e.queue.permits, 0
	for i, r := range e.next {
		if len(requests) >= mostRequests {
			e.next = slices.Delete(e.next, 0, i)
			return requests
		}
		if r.code == opTake {
			if !e.admitLocked(r, now) {
				continue
			}
			r.flags = 0
			if r.waits && r.permits > 0 {
				// What will be queued if it is refused lets nobody pass.
				if e.terms.order == core.OldestFirst && int(r.permits) <= room {
					r.flags, room = flagBlocks, room-int(r.permits)
				}
				if !e.terms.rate() && e.terms.queueLimit > 0 {
					r.flags |= flagWaited
				}
			}
		}
		e.nameLocked(r)
		if !r.due.IsZero() && r.due.Before(c.deadline) {
			c.deadline = r.due
		}
		if r.first() {
			requests = slices.Insert(requests, firsts, r)
			firsts++
		} else {
			requests = append(requests, r)
		}
	}
	clear(e.next)
	e.next = e.next[:0]
	return requests
}

// waitersLocked puts waiters into the call: as many as may be served, and one for zero permits.
func (e *engine) waitersLocked(c *call, now time.Time) {
	q := &e.queue
	q.asked = now
	if q.empty() || e.guard.refuses(now) != nil {
		return
	}
	add := func(r *request, flags int64) {
		r.flags = flags
		e.nameLocked(r)
		c.requests = append(c.requests, r)
		c.waiters++
	}
	r := q.head(e.terms.order)
	for ; r != nil && c.waiters < mostAsked; r = r.next(e.terms.order) {
		add(r, flagBlocks|flagWaited)
	}
	if r := waiter(q.zeroPermits.Front()); r != nil {
		add(r, flagWaited)
	}
}

// nameLocked gives a request for a concurrency lease the id that this try is known by.
func (e *engine) nameLocked(r *request) {
	if !e.terms.rate() && r.permits > 0 && (r.code == opTake || r.code == opCharge) {
		e.leases.last++
		r.id = e.leases.last
	}
}

// endCall deals out what the store answered.
func (e *engine) endCall(c *call, err error) {
	e.mu.Lock()
	defer e.unlock()
	switch {
	case err != nil:
		e.failLocked(c, err)
	case c.reply.conflict != 0:
		e.conflictLocked(c)
	default:
		e.answerLocked(c, time.Now())
	}
	clear(c.requests)
	if c.requests = c.requests[:0]; cap(c.requests) > mostKept {
		*c = call{}
	}
}

// failLocked decides all requests of a call that failed. Waiters wait on.
func (e *engine) failLocked(c *call, err error) {
	for _, r := range c.requests {
		switch {
		case r.code == opRelease:
			e.releaseAgainLocked(release{id: r.id, known: true, until: r.lease.until})
		case r.id != 0 && r.code != opRenew:
			e.orphanLocked(r.id) // it may have been granted
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
			r.answer = answer{left: last.left, reset: last.reset}
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
	if c.terms != e.terms { // an Update came between
		m.forget()
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
	case opGive, opRelease:
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
		p.timer = time.AfterFunc(unusedAfter, func() {
			e.mu.Lock()
			defer e.unlock()
			p.timer = nil
			p.unused = p.left(time.Now()) > 0
		})
	}
}
