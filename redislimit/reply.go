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
	stamp  stamp
}

// stamp is what the return of a grant needs. Only the scripts read it.
type stamp struct {
	at      int64 // a lease's token; an instant of the server
	spare   int64
	refunds int64
}

const answerLen = 7

// giveBack returns the operation that gives back n permits of a rate's grant.
func giveBack(n int64, s stamp) *op { return &op{kind: opGive, n: n, x: s.at, back: s} }

// reply is what a script returned.
type reply struct {
	conflict kind // if not 0, the kind of limit that is there instead
	forecast *forecast
	lack     int64   // permits taken, if it is a window
	ends     int64   // microseconds until permits that were fetched ahead must be spent, if it is a window
	answers  []int64 // answerLen for each operation
}

func (r reply) answer(i int) answer {
	a := r.answers[i*answerLen:]
	return answer{a[0], int(a[1]), a[2], a[3], stamp{a[4], a[5], a[6]}}
}

// errReply is a failure of the store: it answered, but not as the script does.
var errReply = errors.New("not the script's answer")

// possible reports whether a script says such numbers: they are exact in its floats, and only
// an instant is ever negative.
func (r reply) possible(all []int64) bool {
	for _, n := range all {
		if n < -1<<53 || n > 1<<53 {
			return false
		}
	}
	for i := range len(r.answers) / answerLen {
		if a := r.answer(i); a.status < 0 || a.left < 0 || a.reset < 0 || a.retry < 0 {
			return false
		}
	}
	return r.lack >= 0 && r.ends >= 0 && (r.forecast == nil || r.forecast.possible())
}

func (f *forecast) possible() bool {
	for i, s := range f.segments {
		if s.taken < 0 || s.index < -f.t.step || i > 0 && s.index <= f.segments[i-1].index {
			return false
		}
	}
	return f.lack >= 0 && f.zero <= 0
}

// read reads a script's answer to that many operations.
func (t *terms) read(r []int64, ops int) (reply, error) {
	if len(r) == 1 && r[0] > 0 {
		return reply{conflict: kind(r[0])}, nil
	}
	out, head := reply{}, 0
	switch {
	case len(r) < 2 || r[0] != 0:
		return out, fmt.Errorf("%w: %d numbers", errReply, len(r))
	case t.kind == kindConcurrency:
		head = 2
	case t.kind == kindBucket && len(r) >= 3:
		head = 3
		out.forecast = &forecast{t: t, lack: r[1], tick: -r[2]}
	case len(r) >= 5 && r[4] >= 0 && r[4] <= int64(len(r)):
		head = 5 + int(2*r[4])
		out.lack, out.ends = r[2], r[3]
		if head <= len(r) && (head > 5 || r[2] == 0) {
			out.forecast = &forecast{t: t, lack: r[2], zero: -r[1]}
			for i := 5; i < head; i += 2 {
				out.forecast.segments = append(out.forecast.segments, segment{r[i], r[i+1]})
			}
		}
	}
	if head == 0 || len(r) != head+ops*answerLen {
		return out, fmt.Errorf("%w: %d numbers", errReply, len(r))
	}
	out.answers = r[head:]
	if !out.possible(r) {
		return reply{}, fmt.Errorf("%w: impossible numbers", errReply)
	}
	return out, nil
}

// op is something that the store is asked for.
type op struct {
	kind opKind
	n    int64  // permits; a lease's token
	x    int64  // flags; a grant's stamp
	bind *terms // opBind: the terms until now
	back stamp  // opGive, of a rate: of the grant

	waits    bool      // it is an Acquire: refused, it waits
	deadline time.Time // until when the caller waits; zero: for ever
	due      time.Time // when its Budget is over
	probe    bool      // it tries whether the store is back

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
	ready   time.Time // in the queue: when it can be served, as far as is known

	prev, next *op // in the queue
	done       chan struct{}
}

// outcome is what became of an operation.
type outcome uint8

const (
	granted  outcome = iota + 1
	rejected         // by the limit
	refused          // for another reason
	away             // the store did not answer, and Down is DownAllow or DownLocal
)
