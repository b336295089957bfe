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

// numbers is what a script says after an operation.
type numbers struct {
	done  int64
	taken int64 // permits that are taken now

	sinceTick, version int64 // a bucket's
	reset              int64 // a window's
	retry              int64 // a window's, a concurrency limiter's
	token              int64 // a concurrency limiter's
}

// named gives the four numbers after an operation their names.
func (l *limits) named(n [answerLen]int64) numbers {
	switch {
	case l.kind == kindBucket:
		return numbers{done: n[0], taken: n[1], sinceTick: n[2], version: n[3]}
	case l.window():
		return numbers{done: n[0], taken: n[1], reset: n[2], retry: n[3]}
	}
	return numbers{done: n[0], taken: n[1], retry: n[2], token: n[3]}
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
	next := func() numbers {
		n := l.named([answerLen]int64(after))
		after = after[answerLen:]
		return n
	}
	for _, o := range c.ops {
		n := next()
		if o.most > 0 {
			n.done = min(n.done, o.most)
		}
		r.ops = append(r.ops, r.answer(n))
	}
	for rest := c.takes; len(rest) > 0; {
		n, t, alike := next(), rest[0], l.alike(rest)
		for i := range int64(alike) { // the state right after this one, when later ones were not granted yet
			one := n
			one.done = min(max(n.done-i, 0), 1)
			one.taken -= max(n.done-1-i, 0) * int64(t.permits)
			a := r.answer(one)
			if a.done == 0 {
				a.retry = r.retry(t, a, n)
			}
			r.takes = append(r.takes, a)
		}
		rest = rest[alike:]
	}
	if c.prefetch > 0 {
		n := next()
		n.done = min(n.done, c.prefetch)
		r.prefetched = r.answer(n)
	}
}

// answer returns an answer, and has the forecast begin after it.
func (r *reply) answer(n numbers) answer {
	f := &r.forecast
	l := f.limits
	f.taken, f.age = n.taken, n.sinceTick
	f.known = !l.window() || n.taken == 0 || len(f.returns) > 0
	a := answer{done: n.done, left: f.available(0), reset: n.reset, token: n.token, window: r.window}
	switch {
	case l.kind == kindBucket:
		a.reset = f.fullIn()
		a.stamp = stamp{r.now - n.sinceTick, n.taken, n.version}
	case l.window():
		a.stamp = stamp{at: r.back, version: r.version}
	}
	r.last = a
	return a
}

// retry returns when a refused take could be granted.
func (r *reply) retry(t *take, a answer, n numbers) int64 {
	switch permits := max(t.permits, 1); {
	case permits <= a.left:
		return 0
	case r.forecast.limits.kind == kindBucket:
		return r.forecast.ready(0, permits)
	}
	return n.retry
}
