package redislimit

import (
	"container/list"
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// request is an operation that somebody waits for. It is asked for by the next call, then
// decided, or, if it is a refused Acquire, queued.
type request struct {
	op

	waits    bool            // an Acquire: it may be queued
	leaves   <-chan struct{} // closed when its caller leaves; nil: it does not
	deadline time.Time       // of its caller; zero: none
	due      time.Time       // when its Budget is over; zero: a call of others decides
	lease    *held           // opRelease, opRenew: that it is about

	// The engine's mutex guards these; once it is decided, they do not change.
	stage stage
	place *list.Element // in the queue
	ready time.Time     // queued: when it should ask again; zero: not known
	done  chan struct{} // closed when it is decided
	result
}

// stage is how far a request has come.
type stage uint8

const (
	asking  stage = iota // in the next call, or in one under way
	queued               // in the queue, and maybe in a call under way
	decided              // its result is known
	gone                 // its caller has left
)

// result is what became of a request.
type result struct {
	outcome outcome
	terms   *terms // that it was decided by
	answer  answer
	reason  string        // of a rejection
	detail  string        // more of that
	retry   time.Duration // of a rejection
	err     error         // of a rejection: its cause, if there is one; else why it was not decided by the limit
	held    *held         // of a concurrency limiter's grant
}

// outcome is how a request was decided.
type outcome uint8

const (
	granted outcome = iota + 1
	rejected
	refused     // for another reason than the limit
	unreachable // [Shared].Down decides
)

// errTooSoon is the cause of a rejection for a hopeless deadline.
var errTooSoon = context.DeadlineExceeded

func newRequest(o op) *request { return &request{op: o} }

// grantOf returns the lease of a granted request.
func (e *engine) grantOf(r *request) core.Lease {
	room := [7]core.Metadata{}
	m := e.numbers(append(room[:0], r.terms.metadata...), r)
	if r.held != nil {
		m = append(m, FencingToken.With(uint64(r.held.token)))
		return r.held.current.grant(int(r.permits), m...)
	}
	g := &grant{e: e, certain: r.permits, stamp: r.answer.stamp}
	return core.Grant(int(r.permits), nil, append(m, grantKey.With(g))...)
}

// numbers appends what was left after a decision.
func (e *engine) numbers(m []core.Metadata, r *request) []core.Metadata {
	if r.terms.ofCalendar() {
		m = append(m, r.terms.windowOf(r.answer.window))
	}
	m = append(m, core.Remaining.With(min(r.answer.left, r.terms.limit)))
	if r.terms.rate() {
		m = append(m, core.ResetAfter.With(lasts(r.answer.reset)))
	}
	return m
}

// refusalOf returns the lease of a request that the limit or something else refused.
func (e *engine) refusalOf(r *request) core.Lease {
	if r.outcome == refused {
		l := core.Refuse(r.err)
		if errors.Is(r.err, ErrStore) {
			l = l.With(r.terms.metadata...)
			if r.terms.ofCalendar() {
				l = l.With(r.terms.windowOf(0))
			}
		}
		return l
	}
	room := [7]core.Metadata{core.ReasonPhrase.With(r.reason)}
	m := append(room[:1], r.terms.metadata...)
	if r.retry > 0 {
		m = append(m, core.RetryAfter.With(r.retry))
	}
	err := &core.RejectedError{
		Limiter: r.terms.name, Permits: int(r.permits), Reason: r.reason, Detail: r.detail, RetryAfter: r.retry, Cause: r.err,
	}
	return core.Refuse(err).With(e.numbers(m, r)...)
}

// saturated returns a + b, at most math.MaxInt.
func saturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
