package redislimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// client has the store perform operations on one limit. A call carries all that was added while the call before it was in flight; a
// call that takes long does not hold back the next one. It has the Timeout and the breaker, and knows nothing of permits that are
// remembered and of callers that wait. Its host's mutex guards it.
type client struct {
	host    host
	store   Store
	timeout time.Duration
	nodeOf  func(key string) string // nil if the store does not tell
	breaker *breaker                // breaker of the node that had the key at the latest call
	ready   func() bool             // reports whether the store returns by its context's deadline
	ending  context.Context         // ends late calls

	kind   kind
	key    string
	keys   []string
	holder int64 // identifies the holder of concurrency leases

	pending []*operation // for the next call
	sent    []*call      // calls in flight, or behind one that is
	calling int          // goroutines that make calls
	latest  time.Time    // when one of them started its latest call
	spare   *time.Timer  // starts another call while one takes long
}

// host is what a client works for.
type host interface {
	lock()
	unlock() // calls startLocked

	// fillLocked adds operations to the next call. It is called when there is anything to send.
	fillLocked(*call)

	// asksLocked reports whether fillLocked has anything to add, and is worth a call.
	asksLocked() bool

	// learnLocked is called with a call that had a reply, before its operations end.
	learnLocked(*call)
}

// operation is anything that the store is asked for: to take permits, to read the state, to return or charge permits, to renew and
// release leases, to reset. The next call performs it.
type operation struct {
	args    []int64 // arguments of the script: the code and its numbers; nil if the script takes permits
	permits int     // to take
	flags   int64
	id      int64 // id of the lease to take; 0 if there is none
	after   int64 // the server's instant before which flagLater does not want the permits

	maxDone int64 // the largest number that the script may report as done; 0 if that is no number of permits
	first   bool  // it goes before all others in its call
	frees   bool  // permits are returned if anything is done

	expires time.Time // when its Timeout ends; zero if no caller waits for it
	asker   asker     // nil if nobody wants to know
}

// asker is who wants to know how an operation ends. Its methods are called with the mutex held.
type asker interface {
	// wanted reports whether the operation is to be sent, now. If not, ended is not called.
	wanted(o *operation, now time.Time) bool

	ended(o *operation, c *call, r result)
}

// call is a call of the store.
type call struct {
	limits   *limits       // the host's
	ahead    time.Duration // the host's: how far the server's clock is ahead
	sent     time.Time
	deadline time.Time // the earliest end of a Timeout among its operations
	ops      []*operation
	args     []int64
	breaker  *breaker
	probe    bool // the breaker's probe

	// When it is over:
	over  bool
	at    time.Time // when the reply came
	reply reply
	err   error
}

const (
	maxPerCall = 2000             // operations
	maxAgain   = 10_000           // times that a script says that there is more to remove
	lateFor    = 10 * time.Second // how long a call may continue after its deadline
)

// errNoReturn is the failure of a Run that has not returned: it panicked, or ended its goroutine.
var errNoReturn = errors.New("the store's Run has not returned")

// addLocked has the next call perform an operation.
func (c *client) addLocked(o *operation) { c.pending = append(c.pending, o) }

// blockedLocked returns the error with which the breaker refuses a call, or nil if the store may be called.
func (c *client) blockedLocked(now time.Time) error {
	err := c.breaker.blocked(now)
	if err != nil && c.locateLocked() {
		err = c.breaker.blocked(now)
	}
	return err
}

// locateLocked makes the breaker that of the key's node, and reports whether that is another one.
func (c *client) locateLocked() bool {
	if c.nodeOf == nil {
		return false
	}
	node := c.nodeOf(c.keys[0])
	if node == "" || node == c.breaker.node {
		return false
	}
	c.breaker = c.breaker.moved(node)
	return true
}

// spacing returns how long a call may take before what was added meanwhile is sent in another one.
func (c *client) spacing() time.Duration { return c.timeout / 8 }

// claimLocked reports whether the caller has to make the next call, with lead or run.
func (c *client) claimLocked() bool {
	if len(c.pending) == 0 && !c.host.asksLocked() {
		return false
	}
	if c.calling > 0 && (c.spare != nil || time.Since(c.latest) < c.spacing()) {
		return false
	}
	c.calling++
	c.latest = time.Now()
	return true
}

// startLocked starts a goroutine that makes the next call, unless there is nothing to ask, or a call is in flight that has just been
// sent.
func (c *client) startLocked() {
	switch {
	case c.claimLocked():
		go c.run()
	case c.calling == 0 || len(c.pending) == 0:
	case c.spare == nil:
		c.spare = time.AfterFunc(c.spacing()-time.Since(c.latest), c.startAnother)
	}
}

func (c *client) startAnother() {
	c.host.lock()
	defer c.host.unlock()
	c.spare = nil
}

// run makes calls until there is nothing more to ask. Between two calls it yields twice, so that the next requests of callers
// that were just answered travel in the next call: BenchmarkTake/callers=64/keys=1 of bench has 31 requests per call
// without a yield, 42 with one, and 51 with two.
func (c *client) run() {
	ended := false
	defer func() {
		if !ended { // the store has ended this goroutine
			c.stop()
		}
	}()
	for call := c.next(); call != nil; call = c.next() {
		c.send(call)
		runtime.Gosched()
		runtime.Gosched()
	}
	ended = true
}

// lead makes one call, on the goroutine of a caller that would otherwise wait for it.
func (c *client) lead() {
	if call := c.next(); call != nil {
		defer c.stop() // also if the store panics
		c.send(call)
	}
}

// stop records that the goroutine makes no more calls.
func (c *client) stop() {
	c.host.lock()
	defer c.host.unlock()
	c.calling--
}

// next returns the next call, or nil if there is nothing to ask.
func (c *client) next() *call {
	c.host.lock()
	defer c.host.unlock()
	for {
		now := time.Now()
		c.locateLocked()
		call := &call{sent: now, deadline: now.Add(c.timeout), breaker: c.breaker}
		c.fillLocked(call)
		if len(call.ops) == 0 {
			c.calling--
			return nil
		}
		probe, err := call.breaker.enter(now, call.deadline)
		if err == nil {
			call.probe, c.latest = probe, now
			call.encode(c.holder)
			c.sent = append(c.sent, call)
			return call
		}
		for _, o := range call.ops {
			o.id = 0 // it was not sent
		}
		call.at, call.err = now, err
		call.deliver()
	}
}

func (c *client) fillLocked(call *call) {
	some := c.pending[:min(len(c.pending), maxPerCall)]
	call.ops = make([]*operation, 0, len(some)+1)
	for _, o := range some {
		switch {
		case o.asker != nil && !o.asker.wanted(o, call.sent):
		case call.expired(o.expires):
			call.end(o, result{}, &storeError{call.breaker.timeout(c.timeout)})
		case o.first:
			call.ops = slices.Insert(call.ops, 0, o)
		default:
			call.ops = append(call.ops, o)
		}
	}
	c.pending = slices.Delete(c.pending, 0, len(some))
	c.host.fillLocked(call)
}

// expired reports whether a Timeout that ends at a given time is over, because the call before took long. If it is not over,
// it bounds the call.
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

// end ends an operation.
func (c *call) end(o *operation, r result, err error) {
	if o.asker != nil {
		c.err = err
		o.asker.ended(o, c, r)
	}
}

// deliver ends the operations of a call that is over, in order.
func (c *call) deliver() {
	if c.err != nil {
		for _, o := range c.ops {
			c.end(o, result{}, c.err)
		}
		return
	}
	c.results(func(o *operation, r result) { c.end(o, r, nil) })
}

// firsts returns how many operations go before all others.
func (c *call) firsts() int {
	n := 0
	for n < len(c.ops) && c.ops[n].first {
		n++
	}
	return n
}

// send makes a call, and distributes the results. It returns at the call's deadline at the latest. If the store panics, the call has
// failed, and the panic continues.
func (c *client) send(call *call) {
	var reply []int64
	err := errNoReturn
	defer func() { c.finish(call, reply, err) }()
	if c.ready() {
		reply, err = c.runHere(call)
	} else {
		reply, err = c.runApart(call)
	}
}

// runScript runs the call's script. If the server's instant is in none of the calendar windows, it runs the script again, with the
// windows around that time. If many segments of a window are due, or many leases have expired, it runs the script until all are removed.
func (c *client) runScript(ctx context.Context, call *call) ([]int64, error) {
	script, args := call.limits.script(), call.args
	reply, err := c.store.Run(ctx, script, c.keys, args...)
	for n := 0; err == nil && again(reply) && n < maxAgain; n++ {
		if err = ctx.Err(); err != nil {
			break
		}
		if call.limits.ofCalendar() {
			args = call.limits.corrected(args, reply)
		}
		reply, err = c.store.Run(ctx, script, c.keys, args...)
	}
	return reply, err
}

// runHere runs the script on this goroutine, for a store that returns by the deadline. On two CPUs another goroutine would add
// half of the call's time: 90 µs instead of 62 in BenchmarkTake/callers=1 of bench.
func (c *client) runHere(call *call) ([]int64, error) {
	ctx, cancel := context.WithDeadline(context.Background(), call.deadline) //nolint:forbidigo // it is for many callers
	defer cancel()
	reply, err := c.runScript(ctx, call)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = call.breaker.timeout(c.timeout)
	}
	return reply, err
}

// runApart runs the script on a goroutine of its own, which may continue after the deadline. A new connection to a distant server
// needs several round trips. If the call ended with the decision, the next call would have to start again, and none would ever
// succeed.
func (c *client) runApart(call *call) ([]int64, error) {
	// With a context that has no deadline, rueidis would switch to goroutines of its own for good.
	ctx, cancel := context.WithDeadline(context.Background(), call.deadline.Add(lateFor)) //nolint:forbidigo // as above
	var reply []int64
	err := errNoReturn
	var claimed atomic.Bool // whether the reply or the deadline has claimed the call
	done := make(chan struct{})
	go func() {
		defer cancel()
		defer func() {
			if claimed.CompareAndSwap(false, true) {
				close(done)
			} else if ctx.Err() == nil {
				call.breaker.setLate(err)
			}
		}()
		reply, err = c.runScript(ctx, call)
	}()
	timer := time.NewTimer(time.Until(call.deadline))
	defer timer.Stop()
	select {
	case <-done:
		return reply, err
	case <-timer.C:
		if !claimed.CompareAndSwap(false, true) {
			<-done
			return reply, err
		}
		stop := context.AfterFunc(c.ending, cancel)
		context.AfterFunc(ctx, func() { stop() })
		return nil, call.breaker.timeout(c.timeout)
	}
}

// finish delivers the calls that are over, in the order in which they were sent. A reply of the server, even an error, is no
// failure of the store.
func (c *client) finish(call *call, reply []int64, err error) {
	at, replied := time.Now(), err == nil || errors.Is(err, ErrRefused)
	if err == nil {
		err = call.decode(reply)
	}
	if err != nil {
		err = &storeError{err}
	}
	if replied {
		call.breaker.leave(call.probe, nil)
	} else {
		call.breaker.leave(call.probe, err)
	}
	if err == nil && call.reply.conflict != 0 {
		err = fmt.Errorf("redislimit: the key %q holds %v, want %v", c.key, call.reply.conflict, c.kind)
	}
	c.host.lock()
	defer c.host.unlock()
	call.over, call.at, call.err = true, at, err
	for len(c.sent) > 0 && c.sent[0].over {
		first := c.sent[0]
		c.sent = slices.Delete(c.sent, 0, 1)
		if first.err == nil {
			c.host.learnLocked(first)
		}
		first.deliver()
	}
}

// encode makes the script's arguments.
func (c *call) encode(holder int64) {
	args := c.limits.limiterArgs(make([]int64, 0, 16), holder, c.sent.Add(c.ahead))
	for equal := range c.groups {
		switch o := equal[0]; {
		case o.args != nil:
			args = append(args, o.args...)
		case o.flags&flagLater != 0:
			args = append(args, int64(codeTake), int64(o.permits), o.after, o.flags)
		case c.limits.rate():
			args = append(args, int64(codeTake), int64(o.permits), int64(len(equal)), o.flags)
		default:
			args = append(args, int64(codeTake), int64(o.permits), o.flags, o.id)
		}
	}
	c.args = args
}

// groups yields the operations. Those that take equal permits of a rate limiter are sent as one.
func (c *call) groups(yield func(equal []*operation) bool) {
	for rest := c.ops; len(rest) > 0; {
		first, n := rest[0], 1
		grouped := c.limits.rate() && first.args == nil && first.permits > 0 && first.flags&flagLater == 0
		for grouped && n < len(rest) && rest[n].args == nil && rest[n].permits == first.permits && rest[n].flags == first.flags {
			n++
		}
		if !yield(rest[:n]) {
			return
		}
		rest = rest[n:]
	}
}

// decode reads the script's reply.
func (c *call) decode(reply []int64) error {
	r, l := &c.reply, c.limits
	if len(reply) == 1 && reply[0] > 0 {
		r.conflict = kind(reply[0])
		return nil
	}
	if again(reply) {
		return fmt.Errorf("%w: its clock leaps", errReply)
	}
	for _, n := range reply {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("%w: %d", errReply, n)
		}
	}
	steps := 0
	for range c.groups {
		steps++
	}
	rest := r.decodeHead(l, reply)
	if len(rest) != steps*resultLen || reply[0] != 0 {
		return fmt.Errorf("%w: %d numbers", errReply, len(reply))
	}
	r.results = rest
	r.last = r.result(r.numbers(steps - 1))
	return nil
}

// results calls f with the result of each operation, in order.
func (c *call) results(f func(o *operation, r result)) {
	step := 0
	for equal := range c.groups {
		n := c.reply.numbers(step)
		step++
		if equal[0].args != nil {
			got := c.reply.result(n)
			if most := equal[0].maxDone; most > 0 {
				got.done = min(got.done, most)
			}
			f(equal[0], got)
			continue
		}
		done := n[0]
		if equal[0].flags&flagLater != 0 {
			n[0] = min(done, 1) // done also says when
		}
		granted, taken := n[0], n[1]
		for j, o := range equal {
			n[0] = min(max(granted-int64(j), 0), 1)
			n[1] = taken - max(granted-int64(j)-1, 0)*int64(o.permits) // those after this one had not been granted yet
			got := c.reply.result(n)
			got.retry = c.reply.retry(o.permits, got)
			if o.flags&flagLater != 0 && got.done == 1 {
				c.reply.later(o.permits, done, n, &got)
			}
			f(o, got)
		}
	}
}

// The operations.

func readOp() operation { return operation{args: []int64{int64(codeRead)}} }

// resetOp makes all permits of a rate limiter available.
func resetOp() operation {
	return operation{args: []int64{int64(codeReset)}, first: true, frees: true}
}

// giveOp returns permits of a rate limiter's grant.
func giveOp(permits int64, s stamp) operation {
	return operation{args: []int64{int64(codeGive), permits, s.at, s.missing, s.version}, maxDone: permits, frees: true}
}

// returnOp returns permits of a rate limiter, whichever grants took them.
func returnOp(permits int64) operation {
	return operation{args: []int64{int64(codeReturn), permits}, maxDone: permits, frees: true}
}

// chargeOp takes permits of a rate limiter, available or not, in addition to those of a grant that may still be missing.
func chargeOp(permits, had int64, s stamp) operation {
	return operation{args: []int64{int64(codeCharge), permits, had, s.at, s.missing, s.version}}
}

// chargeLeaseOp takes permits of a concurrency limiter, available or not, as a lease with that id.
func chargeLeaseOp(id, permits int64) operation {
	return operation{args: []int64{int64(codeCharge), permits, id}}
}

// prefetchOp takes permits of a rate limiter in advance, at most half of those available.
func prefetchOp(permits int64) operation {
	return operation{args: []int64{int64(codePrefetch), permits}, maxDone: permits}
}

// renewOp renews a lease. Its permits change only if the server has not seen a higher version.
func renewOp(id, permits, version int64) operation {
	return operation{args: []int64{int64(codeRenew), id, permits, version}, frees: true}
}

func releaseOp(id int64) operation {
	return operation{args: []int64{int64(codeRelease), id}, frees: true}
}
