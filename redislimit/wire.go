package redislimit

import (
	"errors"
	"fmt"
	"time"
)

// code is an operation of the scripts; lua/common.lua has the same numbers, and the heads of
// the scripts say what each does.
type code int64

const (
	codeLook code = iota
	codeTake
	codeGive
	codeCharge
	codeBind
	codePrefetch
	codeRenew
	codeRelease
	codeReset
	codeReturn
)

// Flags of codeTake.
const (
	flagBlocks = 1 << iota // if it is refused, all that follow are
	flagWaited             // a bucket's: it has waited until now; a concurrency limiter's: it will wait
)

// stamp is the state of a rate limiter right after a grant, for the script; lua/README.md explains it.
type stamp struct {
	at      int64 // a bucket's: its latest tick; a window's: when what is taken comes back
	missing int64 // a bucket's
	version int64
}

// answer is what a script did for one operation or take.
type answer struct {
	done  int64 // 1, or how many permits; 0: refused
	left  int   // permits available after it
	reset int64 // microseconds until all are back
	retry int64 // microseconds until what was refused could be granted; 0: that is not known
	stamp stamp // of a rate limiter's grant
	token int64 // of a concurrency lease

	window int64 // a calendar's: its length in microseconds; 0: that of now
}

// reply is what a script returned to a call.
type reply struct {
	conflict kind     // not 0: the key holds this kind of limit instead, and nothing was done
	now      int64    // the server's instant
	ends     int64    // a window's: microseconds until the segment ends
	back     int64    // a window's: the instant at which what is taken now comes back
	version  int64    // a window's
	window   int64    // a calendar's: its length in microseconds
	forecast forecast // when permits come back

	ops        []answer // one for each operation
	takes      []answer // one for each take
	prefetched answer
	last       answer // of the call's
}

// errReply is a failure of the store: it answered, but not as the script does.
var errReply = errors.New("not the script's answer")

const (
	answerLen = 4 // numbers for each operation
	headLen   = 3 // numbers before them
	windowLen = 6 // the same for windows, and two more for each instant reported

	// most is the largest number that a script takes or returns: Lua's numbers are floats.
	most = 1<<53 - 1
)

// limiterArgs appends what the script wants before the operations; at is about the server's time.
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

// encode makes the script's arguments. Takes of a rate limiter that are alike and follow each other are sent as one.
func (c *call) encode(holder int64, at time.Time) {
	l := c.limits
	args := l.limiterArgs(c.args[:0], holder, at)
	for _, o := range c.ops {
		args = append(args, o.args...)
	}
	for rest := c.takes; len(rest) > 0; {
		t, alike := rest[0], l.alike(rest)
		if l.rate() {
			args = append(args, int64(codeTake), int64(t.permits), int64(alike), t.flags)
		} else {
			args = append(args, int64(codeTake), int64(t.permits), t.flags, t.id)
		}
		rest = rest[alike:]
	}
	if c.prefetch > 0 {
		args = append(args, int64(codePrefetch), c.prefetch)
	}
	c.args = args
}

// alike returns how many takes, from the first on, are sent as one.
func (l *limits) alike(takes []*take) int {
	first, n := takes[0], 1
	if !l.rate() || first.permits == 0 {
		return n
	}
	for n < len(takes) && takes[n].permits == first.permits && takes[n].flags == first.flags {
		n++
	}
	return n
}

// decode reads the script's reply.
func (c *call) decode(reply []int64) error {
	r, l := &c.reply, c.limits
	r.conflict = 0
	if len(reply) == 1 && reply[0] > 0 {
		r.conflict = kind(reply[0])
		return nil
	}
	if outside(reply) {
		return fmt.Errorf("%w: its clock leaps", errReply)
	}
	for _, n := range reply {
		if n < 0 || n > most {
			return fmt.Errorf("%w: %d", errReply, n)
		}
	}
	steps := len(c.ops)
	for rest := c.takes; len(rest) > 0; steps++ {
		rest = rest[l.alike(rest):]
	}
	if c.prefetch > 0 {
		steps++
	}
	after := r.decodeHead(l, reply)
	if len(after) != steps*answerLen || reply[0] != 0 {
		return fmt.Errorf("%w: %d numbers", errReply, len(reply))
	}
	c.decodeAnswers(after)
	return nil
}

// decodeHead reads what stands before the answers, and returns these; nil: they are not there.
func (r *reply) decodeHead(l *limits, reply []int64) (after []int64) {
	head := headLen
	if l.window() && len(reply) >= windowLen {
		head = windowLen + 2*int(min(reply[windowLen-1], int64(len(reply))))
	}
	if len(reply) < head {
		return nil
	}
	r.now, r.ends, r.back, r.version, r.window = reply[1], reply[2], 0, 0, 0
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

// decodeAnswers reads the answers.
func (c *call) decodeAnswers(after []int64) {
	r, l := &c.reply, c.limits
	r.ops, r.takes = r.ops[:0], r.takes[:0]
	next := func() (done, taken, third, fourth int64) {
		n := [answerLen]int64(after)
		after = after[answerLen:]
		return n[0], n[1], n[2], n[3]
	}
	for _, o := range c.ops {
		a := r.answer(next())
		if o.most > 0 {
			a.done = min(a.done, o.most)
		}
		r.ops = append(r.ops, a)
	}
	for rest := c.takes; len(rest) > 0; {
		done, taken, third, fourth := next()
		t, alike := rest[0], l.alike(rest)
		for i := range int64(alike) {
			later := max(done-1-i, 0) * int64(t.permits) // the state is that right after this one, when these were not taken yet
			a := r.answer(min(max(done-i, 0), 1), taken-later, third, fourth)
			a.retry = r.retry(t, a)
			r.takes = append(r.takes, a)
		}
		rest = rest[alike:]
	}
	if c.prefetch > 0 {
		r.prefetched = r.answer(next())
		r.prefetched.done = min(r.prefetched.done, c.prefetch)
	}
}

// answer returns the answer that has the four numbers, two of which depend on the kind, and has the forecast begin after it.
func (r *reply) answer(done, taken, third, fourth int64) answer {
	f := &r.forecast
	l := f.limits
	f.taken = taken
	f.known = !l.window() || taken == 0 || len(f.returns) > 0
	a := answer{done: done, window: r.window}
	switch {
	case l.kind == kindBucket:
		f.age = third
		a.reset = f.fullIn()
		a.stamp = stamp{at: r.now - f.age, missing: taken, version: fourth}
	case l.window():
		a.reset, a.retry = third, fourth
		a.stamp = stamp{at: r.back, version: r.version}
	default:
		a.retry, a.token = third, fourth
	}
	a.left = f.available(0)
	r.last = a
	return a
}

// retry returns when a take with that answer could be granted.
func (r *reply) retry(t *take, a answer) int64 {
	switch permits := max(t.permits, 1); {
	case a.done == 1 || permits <= a.left:
		return 0
	case r.forecast.limits.kind == kindBucket:
		return r.forecast.ready(0, permits)
	}
	return a.retry
}
