package redislimit

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// pipeline gathers what the store is to be asked, makes one call at a time, which asks for all that was gathered
// while the one before was under way, and deals out the answers. The engine's mutex guards it.
type pipeline struct {
	e *engine

	ops     []*operation  // for the next call
	takes   []*take       // likewise
	running bool          // a goroutine makes calls
	atRest  chan struct{} // closed when none does; nil: nobody wants to know
	spare   *call         // memory for the next call; nil: there is none
}

// call is a call of the store: operations, takes, and permits in advance, in this order.
type call struct {
	limits   *limits
	sent     time.Time
	deadline time.Time // the earliest end of a Timeout in it
	ops      []*operation
	takes    []*take
	waiters  int   // the last ones of takes, which are in the queue
	prefetch int64 // permits
	args     []int64
	reply    reply
	probe    bool // the breaker wants to know how it ends
	urgent   bool // it has an urgent operation
}

const (
	maxPerCall = 2000 // operations, and takes
	mostKept   = 64   // takes for which memory is kept from one call to the next
)

// pendingLocked reports whether there is something to ask.
func (p *pipeline) pendingLocked() bool {
	return len(p.ops)+len(p.takes) > 0 || p.e.queue.asks || p.e.memory.prefetch.unused
}

// claimLocked reports whether the caller has to make the next call, by lead: nobody else makes one.
func (p *pipeline) claimLocked() bool {
	claims := !p.running && p.pendingLocked()
	p.running = p.running || claims
	return claims
}

// startLocked sees to it that somebody makes the next call.
func (p *pipeline) startLocked() {
	if p.claimLocked() {
		go p.run()
	}
}

// run makes calls until there is nothing more to ask. Between two it yields twice, so that callers that
// were answered and ask again travel in the next one: BenchmarkTake/callers=64/keys=1 of bench/stores
// has 31 takes in a call without it, 42 if it yields once, and 51 as it is.
func (p *pipeline) run() {
	atRest := false
	defer func() {
		if !atRest { // the store has ended this goroutine
			p.rest()
		}
	}()
	for c := p.next(); c != nil; c = p.next() {
		p.send(c)
		runtime.Gosched()
		runtime.Gosched()
	}
	atRest = true
}

// lead makes one call, for a caller that would wait for it; another goroutine makes the next ones.
func (p *pipeline) lead() {
	if c := p.next(); c != nil {
		defer p.rest() // also if the store panics
		p.send(c)
	}
}

// rest is for a goroutine that makes no more calls.
func (p *pipeline) rest() {
	p.e.mu.Lock()
	defer p.e.unlock()
	p.restLocked()
}

func (p *pipeline) restLocked() {
	p.running = false
	if p.atRest != nil && !p.pendingLocked() {
		close(p.atRest)
		p.atRest = nil
	}
}

// closeLocked returns what is closed when there is nothing more to ask; nil: there is nothing.
func (p *pipeline) closeLocked() <-chan struct{} {
	if !p.running && !p.pendingLocked() {
		return nil
	}
	if p.atRest == nil {
		p.atRest = make(chan struct{})
	}
	return p.atRest
}

// next returns the next call, or nil if there is nothing to ask.
func (p *pipeline) next() *call {
	p.e.mu.Lock()
	defer p.e.unlock()
	for {
		now := time.Now()
		c := p.spare
		if p.spare = nil; c == nil {
			c = new(call)
		}
		c.limits, c.sent, c.deadline = p.e.limits, now, now.Add(p.e.shared.Timeout)
		c.waiters, c.prefetch, c.urgent = 0, 0, false
		if p.pendingLocked() {
			p.fillLocked(c)
		}
		if len(c.ops)+len(c.takes) == 0 {
			p.spare = c
			p.restLocked()
			return nil
		}
		probe, err := p.e.breaker.enter(now, c.deadline, c.urgent)
		if err == nil {
			c.probe = probe
			c.encode(p.e.keeper.holder, now.Add(p.e.memory.ahead))
			return c
		}
		// Another limiter has found out that the store is unreachable.
		for _, t := range c.takes {
			t.id = 0 // it was not sent
		}
		p.failLocked(c, err)
	}
}

// fillLocked puts into the call what is to be asked.
func (p *pipeline) fillLocked(c *call) {
	p.takeOperationsLocked(c)
	p.takeTakesLocked(c)
	p.takeWaitersLocked(c)
	prefetch := &p.e.memory.prefetch
	if len(c.ops)+len(c.takes) == 0 && !prefetch.unused {
		return
	}
	permits := int64(0)
	for _, t := range c.takes {
		permits += int64(t.permits)
	}
	if back := prefetch.giveBack(c.sent); back != nil {
		c.add(back)
	}
	if n := prefetch.wanted(c.limits, p.e.shared.Prefetch, permits, c.sent); n > 0 && !p.e.closed && p.e.queue.empty() {
		c.prefetch = n
	}
}

// expired reports whether it is too late for something whose Timeout ends then; else the call is to be answered by then.
func (c *call) expired(due time.Time) bool {
	if due.IsZero() {
		return false
	}
	if !c.sent.Before(due) { // the call before has taken its time
		return true
	}
	if due.Before(c.deadline) {
		c.deadline = due
	}
	return false
}

// add puts an operation into the call.
func (c *call) add(o *operation) {
	at := len(c.ops)
	if o.first {
		at = 0
		for at < len(c.ops) && c.ops[at].first {
			at++
		}
	}
	c.ops = slices.Insert(c.ops, at, o)
}

func (p *pipeline) takeOperationsLocked(c *call) {
	some := p.ops[:min(len(p.ops), maxPerCall)]
	for _, o := range some {
		if c.expired(o.due) {
			p.e.endLocked(o, c.sent, answer{}, p.silent())
		} else {
			c.urgent = c.urgent || o.urgent
			c.add(o)
		}
	}
	p.ops = slices.Delete(p.ops, 0, len(some))
}

func (p *pipeline) takeTakesLocked(c *call) {
	e := p.e
	some := p.takes[:min(len(p.takes), maxPerCall)]
	room := e.limits.queueLimit - e.queue.permits
	for _, t := range some {
		switch {
		case t.stage != asking:
		case c.expired(t.due):
			e.unreachableLocked(t, p.silent())
		case e.admitLocked(t, c.sent):
			room = c.flag(t, room)
			e.keeper.nameLocked(t)
			c.takes = append(c.takes, t)
		}
	}
	p.takes = slices.Delete(p.takes, 0, len(some))
}

// silent returns the failure of a store that has not answered in time.
func (p *pipeline) silent() error { return &storeError{p.e.breaker.timeout(p.e.shared.Timeout)} }

// flag sets the flags of a newcomer's take, and returns what is left of the queue's room.
func (c *call) flag(t *take, room int) int {
	l := c.limits
	t.flags = 0
	if !t.waits || t.permits == 0 {
		return room
	}
	if !l.rate() && l.queueLimit > 0 {
		t.flags = flagWaited
	}
	// What will be queued if it is refused lets nobody pass.
	if l.order == core.OldestFirst && t.permits <= room {
		t.flags |= flagBlocks
		room -= t.permits
	}
	return room
}

// takeWaitersLocked puts waiters into the call: as many as may be served, and one for zero permits.
func (p *pipeline) takeWaitersLocked(c *call) {
	q := &p.e.queue
	if !q.asks {
		return
	}
	q.asks, q.asked = false, c.sent
	if q.empty() || p.e.breaker.rejects(c.sent) != nil {
		return
	}
	add := func(t *take, flags int64) {
		t.flags = flags
		p.e.keeper.nameLocked(t)
		c.takes = append(c.takes, t)
		c.waiters++
	}
	for t := q.head(c.limits.order); t != nil && c.waiters < mostAsked; t = t.next(c.limits.order) {
		add(t, flagBlocks|flagWaited)
	}
	if t := waiter(q.zeroPermits.Front()); t != nil {
		add(t, flagWaited)
	}
}

// send makes a call, and distributes the results. If the store panics, it has failed, and the panic continues.
func (p *pipeline) send(c *call) {
	var reply []int64
	err := errNoReturn
	defer func() { p.finish(c, reply, err) }()
	reply, err = p.e.breaker.run(c.script(p.e))
}

// finish distributes the results of a call. The memory of a call that failed is not used again, as the store may still
// read the arguments.
func (p *pipeline) finish(c *call, reply []int64, err error) {
	e := p.e
	if err == nil {
		err = c.decode(reply)
	}
	if err != nil {
		err = &storeError{err}
	}
	e.breaker.leave(c.probe, err)
	e.mu.Lock()
	defer e.unlock()
	if err == nil && c.reply.conflict != 0 {
		err = fmt.Errorf("redislimit: the key %q holds %v, want %v", e.shared.Key, c.reply.conflict, e.kind)
	}
	if err != nil {
		p.failLocked(c, err)
		return
	}
	p.dealLocked(c, time.Now())
	clear(c.ops)
	clear(c.takes)
	c.ops = c.ops[:0]
	if c.takes = c.takes[:0]; cap(c.takes) <= mostKept {
		p.spare = c
	}
}

// finishLate uses a reply that came after the call's deadline: leases that it has renewed live longer, or are lost.
func (p *pipeline) finishLate(c *call, reply []int64) {
	p.e.mu.Lock()
	defer p.e.unlock()
	if err := c.decode(reply); err != nil || c.reply.conflict != 0 {
		return
	}
	for i, o := range c.ops {
		if o.urgent {
			o.then(c.sent, c.reply.ops[i], nil)
		}
	}
}

// script returns the script that the call runs.
func (c *call) script(e *engine) *script {
	s := &script{
		Script: c.limits.script(), store: e.shared.Store, ready: e.ready(), keys: e.keys, args: c.args,
		within: e.shared.Timeout, deadline: c.deadline, closed: e.ending,
	}
	s.late = func(reply []int64, err error) {
		if c.urgent && err == nil {
			e.pipeline.finishLate(c, reply)
		}
	}
	if c.limits.ofCalendar() {
		s.outside = c.limits.again
	}
	return s
}
