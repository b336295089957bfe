package redislimit

import (
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
// has 31 takes in a call without it, and 42 with it. A call that is not answered in time keeps its
// goroutine, and another one makes the next calls.
func (e *engine) calls() {
	for {
		c := e.beginCall()
		if c == nil || e.runCall(c, e.guard.run) {
			return
		}
		runtime.Gosched()
	}
}

// lead makes one call, for a caller that would wait for it; another goroutine makes the next ones. With
// two processors, a goroutine for the call costs half as much as the call: 90 µs instead of 62, in
// BenchmarkTake/callers=1 of bench/stores.
func (e *engine) lead() {
	if c := e.beginCall(); c != nil {
		e.runCall(c, e.guard.runNow)
		e.mu.Lock()
		defer e.unlock()
		e.restLocked()
	}
}

// runCall makes a call by one of the guard's ways, and reports whether it kept this goroutine for too long.
func (e *engine) runCall(c *call, run func(script, func([]int64) error, func(error, bool)) bool) (late bool) {
	now := time.Now()
	trial, err := e.guard.enter(now)
	if err != nil {
		e.endCall(c, err)
		return false
	}
	s := script{c.terms.script(), e.keys, c.args, e.shared.Budget, c.deadline, trial, nil}
	if t := c.terms; t.ofCalendar() {
		s.again = t.again
	}
	read := func(numbers []int64) (err error) {
		c.reply, err = c.terms.decode(numbers, c.requests, c.reply.answers)
		return err
	}
	return run(s, read, func(err error, late bool) {
		e.endCall(c, err)
		if late {
			e.calls()
		}
	})
}

// restLocked is for a goroutine that makes no more calls.
func (e *engine) restLocked() {
	e.calling = false
	if e.rests != nil && !e.asksLocked() {
		close(e.rests)
		e.rests = nil
	}
}

// beginCall returns the next call; nil: there is nothing to ask.
func (e *engine) beginCall() *call {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	c := e.spare
	if c == nil {
		c = new(call)
	}
	e.spare = nil
	c.terms, c.sent, c.deadline, c.waiters = e.terms, now, now.Add(e.shared.Budget), 0
	if e.asksLocked() {
		e.fillLocked(c, now)
	}
	if len(c.requests) == 0 {
		e.spare = c
		e.restLocked()
		return nil
	}
	c.args = c.terms.encode(c.args[:0], e.holder, now.Add(e.memory.ahead), c.requests)
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
		if !r.due.IsZero() && !now.Before(r.due) { // the call before has taken its time
			e.unansweredLocked(r, e.guard.silent(e.shared.Budget))
			continue
		}
		if r.code == opTake {
			if !e.admitLocked(r, now) {
				continue
			}
			room = e.terms.flag(r, room)
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

// flag sets the flags of a newcomer's take, and returns what is left of the queue's room.
func (t *terms) flag(r *request, room int) int {
	r.flags = 0
	if !r.waits || r.permits == 0 {
		return room
	}
	if !t.rate() && t.queueLimit > 0 {
		r.flags = flagWaited
	}
	// What will be queued if it is refused lets nobody pass.
	if t.order == core.OldestFirst && int(r.permits) <= room {
		r.flags |= flagBlocks
		room -= int(r.permits)
	}
	return room
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

// endCall deals out what the store answered. The memory of a call that failed is not used again, as the
// store may still read the arguments.
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
	if c.requests = c.requests[:0]; err == nil && cap(c.requests) <= mostKept {
		e.spare = c
	}
}
