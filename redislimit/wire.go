package redislimit

import (
	"errors"
	"fmt"
	"time"
)

// code is an operation of the scripts. lua/common.lua has the same numbers, and the heads of the scripts describe what each
// operation does.
type code int64

const (
	codeRead code = iota
	codeTake
	codeGive
	codeCharge
	codePrefetch
	codeRenew
	codeRelease
	codeReset
	codeReturn
)

// Flags of codeTake.
const (
	flagBlocks = 1 << iota // if it is refused, all that follow are refused, too
	flagWaited             // of a bucket: the request has waited until now; of a concurrency limiter: it is going to wait
)

// stamp is the state of a rate limiter right after a grant, for the script; lua/README.md explains it.
type stamp struct {
	at      int64 // a bucket's latest tick, or the instant at which a window's permits come back
	missing int64 // tokens of a bucket
	version int64
}

// result is a script's result of one operation or request.
type result struct {
	done  int64 // 1, or how many permits; 0 if it was refused
	left  int   // permits available after it
	reset int64 // microseconds until all permits are back
	retry int64 // microseconds until a refused request could be granted; 0 if that is not known
	stamp stamp // of a rate limiter's grant
	token int64 // of a concurrency lease

	window int64 // length of a calendar window in microseconds; 0 means the current one
}

// reply is a script's reply to a call.
type reply struct {
	conflict kind     // the kind of limit that the key holds instead; 0 if it holds the right one
	now      int64    // the server's instant
	ends     int64    // microseconds until the window's segment ends
	back     int64    // the instant at which permits that are taken from a window now come back
	version  int64    // of a window
	window   int64    // length of a calendar window in microseconds
	forecast forecast // when permits come back

	results []int64 // resultLen numbers for each operation, each group of requests, and the prefetched permits
	last    result  // the state after the call; of a call that prefetches, what it prefetched
}

// errReply is a failure of the store: its reply is not one that the script can make.
var errReply = errors.New("unexpected reply from script")

const (
	resultLen = 4 // numbers for each operation
	headLen   = 3 // numbers before them
	windowLen = 6 // the same for windows, without the two numbers for each instant at which permits come back

	// maxNumber is the largest number that a script takes or returns, because Lua's numbers are floats.
	maxNumber = 1<<53 - 1
)

// limiterArgs appends the script's arguments before the operations. at is approximately the server's time.
func (l *limits) limiterArgs(args []int64, holder int64, at time.Time) []int64 {
	switch l.kind {
	case kindBucket:
		return append(args, int64(l.limit), l.step, l.span)
	case kindConcurrency:
		return append(args, int64(l.limit), l.span, holder)
	}
	all := int64(0)
	if l.queueLimit > 0 {
		all = 1
	}
	if l.ofCalendar() {
		return l.around(append(args, 3, int64(l.limit), 0, 1, l.origin, all), at)
	}
	return append(args, int64(l.kind-kindFixed+1), int64(l.limit), l.span, l.step, l.origin, all)
}

// encode makes the script's arguments.
func (c *call) encode(holder int64, at time.Time) {
	args := c.limits.limiterArgs(make([]int64, 0, 16), holder, at)
	for _, o := range c.ops {
		args = append(args, o.args...)
	}
	for equal := range c.groups {
		req := equal[0]
		if c.limits.rate() {
			args = append(args, int64(codeTake), int64(req.permits), int64(len(equal)), req.flags)
		} else {
			args = append(args, int64(codeTake), int64(req.permits), req.flags, req.id)
		}
	}
	if c.prefetch > 0 {
		args = append(args, int64(codePrefetch), c.prefetch)
	}
	c.args = args
}

// groups yields the requests in groups of equal ones, each of which is sent as one. Only a rate limiter's requests are grouped,
// because each concurrency lease has an id.
func (c *call) groups(yield func(equal []*request) bool) {
	for rest := c.requests; len(rest) > 0; {
		first, n := rest[0], 1
		grouped := c.limits.rate() && first.permits > 0
		for grouped && n < len(rest) && rest[n].permits == first.permits && rest[n].flags == first.flags {
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
	if outside(reply) {
		return fmt.Errorf("%w: its clock leaps", errReply)
	}
	for _, n := range reply {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("%w: %d", errReply, n)
		}
	}
	steps := len(c.ops)
	for range c.groups {
		steps++
	}
	if c.prefetch > 0 {
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

// decodeHead reads the numbers before the results, and returns the results; nil if there are none.
func (r *reply) decodeHead(l *limits, reply []int64) (rest []int64) {
	head := headLen
	if l.window() && len(reply) >= windowLen {
		head = windowLen + 2*int(min(reply[windowLen-1], int64(len(reply))))
	}
	if len(reply) < head {
		return nil
	}
	r.now, r.ends = reply[1], reply[2]
	r.forecast = forecast{limits: l, at: r.now, known: true}
	if l.window() {
		if head < windowLen {
			return nil
		}
		r.back, r.version = reply[3], reply[4]
		for i := windowLen; i < head; i += 2 {
			r.forecast.returns = append(r.forecast.returns, comeback{reply[i], reply[i+1]})
		}
	}
	if l.ofCalendar() {
		r.window = l.lengthOf(r.now + r.ends)
	}
	return reply[head:]
}

// performed returns the result of an operation.
func (c *call) performed(i int) result {
	got := c.reply.result(c.reply.numbers(i))
	if most := c.ops[i].maxDone; most > 0 {
		got.done = min(got.done, most)
	}
	return got
}

// results yields the result of each request, in order.
func (c *call) results(yield func(i int, got result) bool) {
	step, i := len(c.ops), 0
	for equal := range c.groups {
		n := c.reply.numbers(step)
		granted, taken := n[0], n[1]
		for j, req := range equal {
			n[0] = min(max(granted-int64(j), 0), 1)
			n[1] = taken - max(granted-int64(j)-1, 0)*int64(req.permits) // those after this one had not been granted yet
			got := c.reply.result(n)
			got.retry = c.reply.retry(req, got)
			if !yield(i, got) {
				return
			}
			i++
		}
		step++
	}
}

// numbers returns the results' numbers of a step: an operation, a group of requests, or the prefetch.
func (r *reply) numbers(step int) [resultLen]int64 {
	return [resultLen]int64(r.results[step*resultLen:])
}

// result returns the result that has the four numbers: how much was done, the permits that are taken or missing after it, and
// two that depend on the kind. The forecast then starts after it.
func (r *reply) result(n [resultLen]int64) result {
	f := &r.forecast
	l := f.limits
	f.taken = n[1]
	f.known = !l.window() || f.taken == 0 || len(f.returns) > 0
	result := result{done: n[0], window: r.window}
	switch l.kind {
	case kindBucket:
		f.age = n[2]
		result.reset = f.bucket().FullAt(&l.bucket, 0)
		result.stamp = stamp{at: r.now - f.age, missing: f.taken, version: n[3]}
	case kindFixed, kindSliding:
		result.reset, result.retry = n[2], n[3]
		result.stamp = stamp{at: r.back, version: r.version}
	case kindConcurrency:
		result.retry, result.token = n[2], n[3]
	}
	result.left = f.available(0)
	return result
}

// retry returns when a request with that result could be granted, in microseconds; 0 if that is not known.
func (r *reply) retry(req *request, got result) int64 {
	switch permits := max(req.permits, 1); {
	case got.done == 1 || permits <= got.left:
		return 0
	case r.forecast.limits.kind == kindBucket:
		return r.forecast.availableIn(0, permits)
	}
	return got.retry
}
