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
	opLook code = iota
	opTake
	opGive
	opCharge
	opBind
	opPrefetch
	opRenew
	opRelease
	opReset
	opReturn
)

// Flags of opTake.
const (
	flagBlocks = 1 << iota // if it is refused, all that follow are
	flagWaited             // a bucket's: it has waited until now; a concurrency limiter's: it will wait
)

// op is what the store is asked to do.
type op struct {
	code    code
	permits int64
	flags   int64 // opTake
	had     int64 // opCharge: permits of the grant that may still be missing
	stamp   stamp // opGive, opCharge: of the grant
	id      int64 // of a concurrency lease
	old     *terms
}

// stamp is the state of a rate limiter right after a grant, for the script.
type stamp struct {
	at      int64 // a bucket's: its latest tick; a window's: when what is taken comes back
	lack    int64 // a bucket's
	version int64
}

// answer is what a script did for one operation.
type answer struct {
	done  int64 // 1, or how many permits; 0: refused
	left  int   // permits available after it
	reset int64 // microseconds until all are back
	retry int64 // microseconds until what was refused could be granted; 0: that is not known
	stamp stamp // of a rate limiter's grant
	token int64 // of a concurrency lease

	window int64 // a calendar's: its length in microseconds; 0: that of now
}

// reply is what a script returned.
type reply struct {
	conflict kind     // not 0: the key holds this kind of limit instead, and nothing was done
	now      int64    // the server's instant
	ends     int64    // a window's: microseconds until the segment ends
	forecast forecast // when permits come back
	answers  []answer // one for each operation
	window   int64    // a calendar's: its length in microseconds
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
func (t *terms) limiterArgs(args []int64, holder int64, at time.Time) []int64 {
	switch t.kind {
	case kindBucket:
		return append(args, int64(t.limit), t.step, t.span)
	case kindConcurrency:
		return append(args, int64(t.limit), t.span, holder)
	}
	all := int64(0)
	if t.queueLimit > 0 {
		all = 1
	}
	if t.ofCalendar() {
		return t.around(append(args, 3, int64(t.limit), 0, 1, t.origin, all), at)
	}
	return append(args, int64(t.kind-kindFixed+1), int64(t.limit), t.span, t.step, t.origin, all)
}

// encode appends the arguments of the script for the operations. Takes of a rate limiter that
// are alike and follow each other are sent as one.
func (t *terms) encode(args []int64, holder int64, at time.Time, ops []*request) []int64 {
	args = t.limiterArgs(args, holder, at)
	for len(ops) > 0 {
		alike := t.alike(ops)
		args = ops[0].encode(args, t, int64(alike))
		ops = ops[alike:]
	}
	return args
}

func (o *op) encode(args []int64, t *terms, count int64) []int64 {
	args = append(args, int64(o.code))
	switch {
	case o.code == opTake && t.rate():
		return append(args, o.permits, count, o.flags)
	case o.code == opTake:
		return append(args, o.permits, o.flags, o.id)
	case o.code == opCharge && !t.rate():
		return append(args, o.permits, o.id)
	case o.code == opGive:
		return append(args, o.permits, o.stamp.at, o.stamp.lack, o.stamp.version)
	case o.code == opCharge:
		return append(args, o.permits, o.had, o.stamp.at, o.stamp.lack, o.stamp.version)
	case o.code == opBind && o.old.kind == kindBucket:
		return append(args, int64(o.old.limit), o.old.step, o.old.span)
	case o.code == opBind && o.old.ofCalendar():
		return append(args, 0, 1, o.old.origin)
	case o.code == opBind:
		return append(args, o.old.span, o.old.step, o.old.origin)
	case o.code == opPrefetch || o.code == opReturn:
		return append(args, o.permits)
	case o.code == opRenew:
		return append(args, o.id, o.permits)
	case o.code == opRelease:
		return append(args, o.id)
	}
	return args
}

// alike returns how many operations, from the first on, are sent as one.
func (t *terms) alike(ops []*request) int {
	first, n := ops[0], 1
	if !t.rate() || first.code != opTake || first.permits == 0 {
		return n
	}
	for n < len(ops) && ops[n].code == opTake && ops[n].permits == first.permits && ops[n].flags == first.flags {
		n++
	}
	return n
}

// decode reads a script's reply to the operations; answers has room for its own.
func (t *terms) decode(numbers []int64, ops []*request, answers []answer) (reply, error) {
	if len(numbers) == 1 && numbers[0] > 0 {
		return reply{conflict: kind(numbers[0])}, nil
	}
	if outside(numbers) {
		return reply{}, fmt.Errorf("%w: its clock leaps", errReply)
	}
	for _, n := range numbers {
		if n < 0 || n > most {
			return reply{}, fmt.Errorf("%w: %d", errReply, n)
		}
	}
	head := headLen
	if t.window() && len(numbers) >= windowLen {
		head = windowLen + 2*int(min(numbers[windowLen-1], int64(len(numbers))))
	}
	runs := 0
	for rest := ops; len(rest) > 0; runs++ {
		rest = rest[t.alike(rest):]
	}
	if len(numbers) != head+runs*answerLen || numbers[0] != 0 {
		return reply{}, fmt.Errorf("%w: %d numbers", errReply, len(numbers))
	}
	r := reply{now: numbers[1], ends: numbers[2], forecast: forecast{terms: t, at: numbers[1]}, answers: answers[:0]}
	if t.ofCalendar() {
		r.window = t.lengthOf(r.now + r.ends)
	}
	var s stamp
	if t.window() {
		s.at, s.version = numbers[3], numbers[4]
		for i := windowLen; i < head; i += 2 {
			r.forecast.returns = append(r.forecast.returns, comeback{numbers[i], numbers[i+1]})
		}
	}
	for four := numbers[head:]; len(four) > 0; four = four[answerLen:] {
		alike := t.alike(ops)
		r.read(t, ops[0], int64(alike), [answerLen]int64(four), s)
		ops = ops[alike:]
	}
	return r, nil
}

// read adds the answers to count operations that were sent as one. s is a window's stamp.
func (r *reply) read(t *terms, o *request, count int64, four [answerLen]int64, s stamp) {
	f, taken := &r.forecast, four[1]
	done := four[0]
	if o.code == opPrefetch || o.code == opGive || o.code == opReturn {
		done = min(done, o.permits)
	}
	f.known, f.taken = true, taken
	switch {
	case t.kind == kindBucket:
		f.age = four[2]
		s = stamp{r.now - f.age, taken, four[3]}
	case t.window():
		f.known = taken == 0 || len(f.returns) > 0
	}
	for i := range count {
		a := answer{done: done, stamp: s, window: r.window}
		if o.code == opTake {
			a.done = min(max(done-i, 0), 1)
			f.taken = taken - max(done-1-i, 0)*o.permits // later ones were not granted yet
		}
		if t.kind == kindBucket {
			a.stamp.lack = f.taken
		}
		a.left = f.available(0)
		switch {
		case t.kind == kindBucket:
			a.reset = f.whole()
		case t.window():
			a.reset = four[2]
		default:
			a.token = four[3]
		}
		if o.code == opTake && a.done == 0 {
			switch n := max(int(o.permits), 1); {
			case n <= a.left:
			case t.kind == kindBucket:
				a.retry = f.ready(0, n)
			case t.window():
				a.retry = four[3]
			default:
				a.retry = four[2]
			}
		}
		r.answers = append(r.answers, a)
	}
}
