package redislimit

import (
	"runtime"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// pipeline collects requests and operations for the next call of the store. A call carries all that was collected while the call
// before it was in flight; then the pipeline distributes the results. A call that takes long does not hold back the next one: that
// is sent after an eighth of Timeout. Results are distributed in the order in which the calls were sent. The engine's mutex guards it.
type pipeline struct {
	e *Limiter

	ops      []*operation // for the next call
	requests []*request   // for the next call
	calling  int          // goroutines that make calls
	latest   time.Time    // when one of them started its latest call
	spare    *time.Timer  // starts another call while one takes long; nil if it is not set
	inFlight []*call      // in the order in which they were sent
}

// call is a call of the store: operations, requests, and permits to prefetch, in this order.
type call struct {
	limits   *limits
	sent     time.Time
	deadline time.Time // the earliest end of a Timeout among its operations and requests
	ops      []*operation
	requests []*request
	waiters  int   // how many of requests, the last ones, are in the queue
	prefetch int64 // permits
	args     []int64
	probe    bool // the breaker's probe
	urgent   bool // it has an urgent operation

	over  bool      // it has ended
	at    time.Time // when it ended
	reply reply
	err   error
}

const maxPerCall = 2000 // operations, and requests

// pendingLocked reports whether there is something to ask.
func (p *pipeline) pendingLocked() bool {
	return len(p.ops)+len(p.requests) > 0 || p.e.queue.asks
}

// claimLocked reports whether the caller has to make the next call, with lead or run.
func (p *pipeline) claimLocked() bool {
	if !p.pendingLocked() || p.calling > 0 && time.Since(p.latest) < p.spacing() {
		return false
	}
	p.calling++
	p.latest = time.Now()
	return true
}

// spacing returns how long a call may take before the next one is sent.
func (p *pipeline) spacing() time.Duration { return p.e.options.Timeout / 8 }

// startLocked starts a goroutine that makes the next call, unless there is nothing to ask or a call was sent just now.
func (p *pipeline) startLocked() {
	switch {
	case p.claimLocked():
		go p.run()
	case p.calling > 0 && p.spare == nil && len(p.ops)+len(p.requests) > 0:
		p.spare = time.AfterFunc(p.spacing()-time.Since(p.latest), p.startAnother)
	}
}

// startAnother is called by the spare timer; unlock starts the call.
func (p *pipeline) startAnother() {
	p.e.mu.Lock()
	defer p.e.unlock()
	p.spare = nil
}

// run makes calls until there is nothing more to ask. Between two calls it yields twice, so that the next requests of callers
// that were just answered travel in the next call: BenchmarkTake/callers=64/keys=1 of bench has 31 requests per call
// without a yield, 42 with one, and 51 with two.
func (p *pipeline) run() {
	ended := false
	defer func() {
		if !ended { // the store has ended this goroutine
			p.stop()
		}
	}()
	for c := p.next(); c != nil; c = p.next() {
		p.send(c)
		runtime.Gosched()
		runtime.Gosched()
	}
	ended = true
}

// lead makes one call, on the goroutine of a caller that would otherwise wait for it.
func (p *pipeline) lead() {
	if c := p.next(); c != nil {
		defer p.stop() // also if the store panics
		p.send(c)
	}
}

// stop records that the goroutine makes no more calls.
func (p *pipeline) stop() {
	p.e.mu.Lock()
	defer p.e.unlock()
	p.calling--
}

// next returns the next call, or nil if there is nothing to ask.
func (p *pipeline) next() *call {
	p.e.mu.Lock()
	defer p.e.unlock()
	for {
		now := time.Now()
		c := &call{limits: p.e.limits, sent: now, deadline: now.Add(p.e.options.Timeout)}
		if p.pendingLocked() {
			p.fillLocked(c)
		}
		if len(c.ops)+len(c.requests) == 0 {
			p.calling--
			return nil
		}
		probe, err := p.e.breaker.enter(now, c.deadline, c.urgent)
		if err == nil {
			c.probe = probe
			c.encode(p.e.keeper.holder, now.Add(p.e.memory.ahead))
			p.latest = now
			p.inFlight = append(p.inFlight, c)
			return c
		}
		// Another limiter has found the store unreachable.
		for _, req := range c.requests {
			req.id = 0 // it was not sent
		}
		p.failLocked(c, err)
	}
}

// fillLocked puts operations, requests and waiters into the call.
func (p *pipeline) fillLocked(c *call) {
	p.fillOperationsLocked(c)
	p.fillRequestsLocked(c)
	p.fillWaitersLocked(c)
	if len(c.ops)+len(c.requests) == 0 {
		return
	}
	permits := int64(0)
	for _, req := range c.requests {
		permits += int64(req.permits)
	}
	prefetch := &p.e.memory.prefetch
	if back := prefetch.giveBack(c.sent); back != nil {
		c.add(back)
	}
	if n := prefetch.wanted(c.limits, p.e.options.Prefetch, permits, c.sent); n > 0 && !p.e.closed && p.e.queue.empty() && len(p.inFlight) == 0 {
		c.prefetch = n
	}
}

// expired reports whether a Timeout that ends at an instant is over, because the call before took long. If it is not over, it
// bounds the call.
func (c *call) expired(at time.Time) bool {
	if at.IsZero() {
		return false
	}
	if !c.sent.Before(at) {
		return true
	}
	if at.Before(c.deadline) {
		c.deadline = at
	}
	return false
}

// add puts an operation into the call.
func (c *call) add(o *operation) {
	at := len(c.ops)
	if o.first {
		at = 0
	}
	c.ops = slices.Insert(c.ops, at, o)
}

func (p *pipeline) fillOperationsLocked(c *call) {
	some := p.ops[:min(len(p.ops), maxPerCall)]
	for _, o := range some {
		if c.expired(o.expires) {
			p.e.finishLocked(o, c.sent, result{}, p.timeout())
		} else {
			c.urgent = c.urgent || o.urgent
			c.add(o)
		}
	}
	p.ops = slices.Delete(p.ops, 0, len(some))
}

func (p *pipeline) fillRequestsLocked(c *call) {
	e := p.e
	some := p.requests[:min(len(p.requests), maxPerCall)]
	c.requests = make([]*request, 0, len(some))
	room := e.limits.queueLimit - e.queue.permits
	for _, req := range some {
		switch {
		case req.stage != asking:
		case c.expired(req.expires):
			e.unreachableLocked(req, p.timeout())
		case e.admitLocked(req, c.sent):
			room = c.flag(req, room)
			e.keeper.nameLocked(req)
			c.requests = append(c.requests, req)
		}
	}
	p.requests = slices.Delete(p.requests, 0, len(some))
}

// timeout returns the failure of a store that has not replied in time.
func (p *pipeline) timeout() error { return &storeError{p.e.breaker.timeout(p.e.options.Timeout)} }

// flag sets the flags of a new request, and returns the remaining room in the queue.
func (c *call) flag(req *request, room int) int {
	l := c.limits
	req.flags = 0
	if !req.waits || req.permits == 0 {
		return room
	}
	if !l.rate() && l.queueLimit > 0 {
		req.flags = flagWaited
	}
	// A request that will be queued if it is refused blocks those behind it.
	if l.order == core.OldestFirst && req.permits <= room {
		req.flags |= flagBlocks
		room -= req.permits
	}
	return room
}

// fillWaitersLocked puts waiters into the call: up to maxWaiters, and one for zero permits.
func (p *pipeline) fillWaitersLocked(c *call) {
	q := &p.e.queue
	if !q.asks {
		return
	}
	q.asks, q.asked = false, c.sent
	if q.empty() || p.e.breaker.rejects(c.sent) != nil {
		return
	}
	add := func(req *request, flags int64) {
		req.flags = flags
		p.e.keeper.nameLocked(req)
		c.requests = append(c.requests, req)
		c.waiters++
	}
	for req := q.head(c.limits.order); req != nil && c.waiters < maxWaiters; req = req.next(c.limits.order) {
		add(req, flagBlocks|flagWaited)
	}
	if req := waiter(q.zeroPermits.Front()); req != nil {
		add(req, flagWaited)
	}
}
