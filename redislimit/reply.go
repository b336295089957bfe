package redislimit

import (
	"errors"
	"fmt"
	"time"
)

// opKind is an operation of the scripts.
type opKind int64

const (
	opLook  opKind = iota // see what is there
	opTake                // take permits
	opGive                // give permits of a rate, or a lease, back
	opBind                // a bucket's terms are others now
	opAhead               // fetch permits that nobody asked for
	opRenew               // a lease goes on
	opRun                 // several opTake that are alike
)

// Flags of an opTake.
const (
	flagBlocks = 1 // if it is refused, all that follows is
	flagWaited = 2 // of a bucket: it waited until now; of a concurrency limit: it will
)

// answer is what a script said of one operation.
type answer struct {
	status int64 // 1: done; 0: refused
	left   int
	reset  int64 // microseconds until all permits are back
	retry  int64 // microseconds; 0: not known
	odd    bool  // it was refused though the permits are there, and nobody is ahead
	stamp  stamp
}

// stamp is what the return of a grant needs. Only the scripts read it.
type stamp struct {
	at      int64 // a lease's token; an instant of the server
	spare   int64
	refunds int64
}

// answerLen is how many numbers a script tells of each operation.
const answerLen = 4

// giveBack returns the operation that gives back n permits of a rate's grant.
func giveBack(n int64, s stamp) *op { return &op{kind: opGive, n: n, x: s.at, back: s} }

// reply is what a script returned.
type reply struct {
	conflict kind  // if not 0, the kind of limit that is there instead
	now      int64 // the server's instant
	forecast *forecast
	lack     int64 // tokens missing, or permits taken
	age      int64 // of a bucket's latest tick, in microseconds
	ends     int64 // microseconds until permits that were fetched ahead must be spent, if it is a window
	back     int64 // the instant at which what is taken comes back, if it is a window
	odd      bool  // an answer is
	answers  []answer
}

// errReply is a failure of the store: it answered, but not as the script does.
var errReply = errors.New("not the script's answer")

// possible reports whether a script says such numbers: they are exact in its floats, and only
// segments, whose numbers lie from one to the other, may be of the past.
func possible(all []int64, segments, end int) bool {
	for i, n := range all {
		past := i >= segments && i < end && (i-segments)%2 == 0
		if n < 0 && !past || n < -most || n > most {
			return false
		}
	}
	return true
}

// most is the largest number that a script tells or keeps.
const most = 1<<53 - 1

func (f *forecast) possible() bool {
	for i, s := range f.segments {
		if s.taken < 0 || s.index < -f.t.step || i > 0 && s.index <= f.segments[i-1].index {
			return false
		}
	}
	return f.lack >= 0 && f.zero <= 0
}

// read reads a script's answer to the operations, which it told in runs; the answers lie in room.
func (t *terms) read(r []int64, ops []*op, room []answer) (reply, error) {
	if len(r) == 1 && r[0] > 0 {
		return reply{conflict: kind(r[0])}, nil
	}
	head := 2
	if t.timed() && t.kind != kindBucket && len(r) > windowHead {
		head = windowHead + 2*int(min(max(r[windowHead-1], 0), int64(len(r))))
	}
	if len(r) < head || r[0] != 0 || len(r) != head+t.runs(ops)*answerLen {
		return reply{}, fmt.Errorf("%w: %d numbers", errReply, len(r))
	}
	if !possible(r, windowHead, head) {
		return reply{}, fmt.Errorf("%w: impossible numbers", errReply)
	}
	out := reply{now: r[1], answers: room[:0]}
	if head >= windowHead {
		out.ends, out.back = r[4], r[5]
		if head > windowHead || r[3] == 0 {
			out.forecast = windowForecast(t, r[:head])
		}
	}
	blocked := false
	for a := r[head:]; len(a) > 0; a = a[answerLen:] {
		o, many := ops[len(out.answers)], t.run(ops[len(out.answers):])
		if a[0] > int64(many) && o.kind != opAhead || a[0] > o.n && o.kind == opAhead {
			return reply{}, fmt.Errorf("%w: impossible numbers", errReply)
		}
		out.add(t, o, many, a, blocked)
		blocked = blocked || o.kind == opTake && o.x&flagBlocks != 0 && a[0] < int64(many)
	}
	if t.timed() && t.kind != kindBucket {
		out.lack = r[3]
	}
	if out.forecast != nil && !out.forecast.possible() {
		return reply{}, fmt.Errorf("%w: impossible numbers", errReply)
	}
	return out, nil
}

// windowHead is how many numbers the script of windows tells before the segments.
const windowHead = 7

func windowForecast(t *terms, head []int64) *forecast {
	f := &forecast{t: t, lack: head[3], zero: -head[2]}
	for i := windowHead; i < len(head); i += 2 {
		f.segments = append(f.segments, segment{head[i], head[i+1]})
	}
	return f
}

// add adds the answers to a run of so many operations like o, of which the script told a. blocked tells that
// one before was refused who lets nobody pass.
func (r *reply) add(t *terms, o *op, many int, a []int64, blocked bool) {
	if t.kind == kindBucket {
		r.lack, r.age = a[1], a[2]
	}
	one := answer{status: 1}
	for i := range int64(many) {
		switch {
		case o.kind == opAhead:
			one.status = a[0]
		case i >= a[0]:
			one.status = 0
		}
		r.fill(t, &one, a, a[1]-max(a[0]-1-i, 0)*o.taken())
		if one.status == 0 && o.kind == opTake {
			r.refused(t, &one, o, a, blocked)
		}
		r.answers = append(r.answers, one)
	}
}

// taken is how much is missing more after a grant.
func (o *op) taken() int64 {
	if o.kind == opTake {
		return o.n
	}
	return 0
}

// fill tells how it is when so many permits are missing, and what the return of a grant needs.
func (r *reply) fill(t *terms, one *answer, a []int64, lack int64) {
	one.left = int(max(int64(t.limit)-lack, 0))
	switch t.kind {
	case kindBucket:
		f := forecast{t: t, lack: lack, tick: -r.age}
		one.reset = 0
		if lack > 0 {
			one.reset = max(f.tickAfter(f.ticks(lack)), 0)
		}
		one.stamp = stamp{r.now + min(one.reset, most-r.now), f.ticks(lack)*t.step - lack, a[3]}
		// If the instant is too large a number, an earlier tick's serves, as of which tokens are missing still.
		if k := (most - r.now + r.age) / t.span; one.reset > most-r.now && k > 0 {
			one.stamp.at, one.stamp.spare = r.now-r.age+k*t.span, k*t.step-lack
		}
	case kindConcurrency:
		one.stamp.at = a[3]
	default:
		one.reset, one.stamp = a[2], stamp{at: r.now, spare: r.back}
	}
}

// refused tells when what was refused can be there.
func (r *reply) refused(t *terms, one *answer, o *op, a []int64, blocked bool) {
	need := max(o.n, 1) - (int64(t.limit) - a[1])
	switch {
	case need <= 0:
		if !blocked || o.n == 0 {
			r.odd, one.odd, one.retry = true, true, t.period()
		}
	case t.kind == kindBucket:
		f := forecast{t: t, tick: -r.age}
		one.retry = max(f.tickAfter(f.ticks(need)), 0)
	case t.kind == kindConcurrency:
		one.retry = a[2]
	default:
		one.retry = a[3]
	}
}

// run returns how many of the operations, from the first on, are told to the script as one, and
// answered as one: takes of a rate that are alike.
func (t *terms) run(ops []*op) int {
	first, n := ops[0], 1
	if !t.timed() || first.kind != opTake || first.n == 0 {
		return n
	}
	for n < len(ops) && ops[n].kind == opTake && ops[n].n == first.n && ops[n].x == first.x {
		n++
	}
	return n
}

// runs returns how many runs there are.
func (t *terms) runs(ops []*op) (n int) {
	for ; len(ops) > 0; n++ {
		ops = ops[t.run(ops):]
	}
	return n
}

// op is something that the store is asked for.
type op struct {
	kind opKind
	n    int64  // permits; a lease's token
	x    int64  // flags; a grant's stamp
	bind *terms // opBind: the terms until now
	back stamp  // opGive, of a rate: of the grant

	waits    bool            // it is an Acquire: refused, it waits
	leaves   <-chan struct{} // closed: its caller goes away
	deadline time.Time       // until when the caller waits; zero: for ever
	due      time.Time       // when its Budget is over
	probe    bool            // it tries whether the store is back

	// Guarded by the engine's mutex.
	queued  bool // it waits in the queue
	dropped bool // the caller went away
	decided bool // what follows is set, and done is closed

	outcome outcome
	t       *terms // that it was decided by
	answer  answer
	reason  string
	detail  string // more of that
	cause   error  // of a rejection: context.DeadlineExceeded, or nil; else what is wrong
	retry   time.Duration
	lease   *held
	spent   spent     // what its caller gives back, if it was granted and is a rate's
	ready   time.Time // in the queue: when it can be served, as far as is known

	prev, next *op           // in the queue
	done       chan struct{} // closed when it is decided; holds one if it has been in the queue
}

// openLocked makes done.
func (o *op) openLocked() {
	o.done = make(chan struct{}, 1)
	if o.queued {
		o.tellLocked()
	}
}

// tellLocked tells whoever waits on done that o is in the queue.
func (o *op) tellLocked() {
	select {
	case o.done <- struct{}{}:
	default: // it is nil yet
	}
}

// left reports whether the caller of o goes away.
func (o *op) left() bool {
	select {
	case <-o.leaves:
		return true
	default:
		return o.dropped
	}
}

// outcome is what became of an operation.
type outcome uint8

const (
	granted  outcome = iota + 1
	rejected         // by the limit
	refused          // for another reason
	away             // the store did not answer, and Down is DownAllow or DownLocal
)
