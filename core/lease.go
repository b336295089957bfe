package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
)

// Lease is a limiter's answer: the permits it granted, or why it did not.
//
// It is a small value. It may be copied, stored, sent over channels and released from
// any goroutine; all copies are the same lease. The zero Lease is not acquired.
type Lease struct {
	// Four words, no more: the compiler keeps such a struct in registers. See numbers for
	// what is where.
	c    *cell // nil: no limiter of this package, and nothing extra
	bits uint64
	u, v int64
}

// outcome is the low bits of Lease.bits, and says what the rest means.
type outcome uint8

const (
	unanswered    outcome = iota // not acquired: the zero lease, and Reject's
	free                         // acquired, with nothing to give back
	spentWindow                  // acquired, from a window
	spentBucket                  // acquired, from a bucket
	spentManual                  // acquired, from a bucket that is replenished by hand
	heldHot                      // acquired, from a concurrency limiter's word
	heldTicket                   // acquired; the cell is a ticket
	watchedHot                   // heldHot, and the engine's hook is told of the release
	watchedTicket                // heldTicket, likewise
	exhausted                    // rejected
	queueFull                    // rejected
	evicted                      // rejected
	tooSoon                      // rejected
	exhaustedRaw                 // rejected, from a bucket's level
	closed                       // ErrClosed
	exceedsAll                   // ExceedsLimitError; u: the permits
	negative                     // ErrNegativePermits
	failed                       // extra.err
)

const outcomeBits = 5

var reasonPhrases = [...]string{
	exhausted:    "permits exhausted",
	queueFull:    "queue limit reached",
	evicted:      "evicted by a newer request",
	tooSoon:      "deadline too soon",
	exhaustedRaw: "permits exhausted",
}

// The outcomes are ordered: first those that are acquired, of them first those of rate
// limiters, then those that hold something; then the rejections; then the refusals for good.

func (o outcome) acquired() bool { return o-free <= watchedTicket-free }
func (o outcome) spent() bool    { return o-spentWindow <= spentManual-spentWindow }
func (o outcome) holds() bool    { return o-heldHot <= watchedTicket-heldHot }
func (o outcome) rejected() bool { return o-exhausted <= exhaustedRaw-exhausted }

func (l Lease) outcome() outcome { return outcome(l.bits & (1<<outcomeBits - 1)) }

// home returns the cell that the lease's generation is of.
func (l Lease) home() *cell {
	if l.c.x != nil && l.c.x.of != nil {
		return l.c.x.of
	}
	return l.c
}

// extra returns what the lease has beyond its fields. What is a ticket's is not: others
// may be using it.
func (l Lease) extra() *extra {
	if l.c == nil || l.c.x == nil || l.c.x.chain != nil {
		return nil
	}
	return l.c.x
}

// Acquired reports whether the permits were granted. It stays true after Release.
func (l Lease) Acquired() bool {
	return l.outcome().acquired()
}

// Permits returns how many permits were granted: 0 for a probe, and unless acquired.
func (l Lease) Permits() int {
	if !l.Acquired() {
		return 0
	}
	return l.permits()
}

// Release gives a concurrency limiter's permits back: once, whichever copy is used, from
// whichever goroutines, however often. To a lease that holds nothing it does nothing. A
// rate limiter's permits come back with time alone.
func (l Lease) Release() {
	if l.outcome().holds() {
		l.release()
	}
}

func (l Lease) release() {
	c, n := l.c, int(l.bits>>(outcomeBits+generationBits))
	if c.x != nil {
		l.releaseSlow()
		return
	}
	switch l.outcome() {
	case heldHot:
		c.releaseHot(l.generation(), n)
	case heldTicket:
		if l.redeem() {
			c.e.giveBack(n, c)
		}
	default:
		l.end(direct.Released)
	}
}

// releaseSlow is release for a lease that is not only its limiter's.
func (l Lease) releaseSlow() {
	switch c := l.home(); l.outcome() {
	case heldHot:
		c.releaseHot(l.generation(), l.permits())
	case heldTicket:
		if n := l.permits(); c.redeem(l.generation()) {
			c.settle(n)
		}
	default:
		l.end(direct.Released)
	}
}

// redeem uses up the lease's ticket, and reports whether this call is the one that does.
func (l Lease) redeem() bool {
	if l.c.x == nil {
		return l.c.redeem(l.generation())
	}
	return l.home().redeem(l.generation())
}

// redeem uses up a ticket's generation.
func (c *cell) redeem(g uint64) bool {
	// Of any number of copies and goroutines one moves the generation; a lease from long
	// ago finds a later one. The winner alone touches what the ticket stands for, and only
	// when it is done with that is the ticket used again.
	return c.word.CompareAndSwap(g, g+1)
}

// settle gives back what a redeemed ticket stands for.
func (c *cell) settle(n int) {
	switch {
	case c.x == nil:
		c.e.giveBack(n, c)
	case c.x.chain != nil:
		c.x.chain.release(c)
	case c.x.release != nil:
		release := c.x.release
		c.x.release = nil
		release()
	}
}

// Err returns nil if the lease was acquired. Else it says why not: a *[RejectedError],
// [ErrClosed], an *[ExceedsLimitError], which matches [ErrPermitsExceedLimit],
// [ErrNegativePermits], or the error that the limiter gave to [Refuse].
func (l Lease) Err() error {
	if l.Acquired() {
		return nil
	}
	if x := l.extra(); x != nil && x.err != nil {
		return x.err
	}
	switch l.outcome() {
	case closed:
		return ErrClosed
	case exceedsAll:
		e := &ExceedsLimitError{Permits: int(l.u)}
		if l.c != nil {
			e.Limiter, e.Limit = l.c.name, l.c.Limit
		}
		return e
	case negative:
		return ErrNegativePermits
	}
	e := new(RejectedError)
	l.explain(e)
	return e
}

// String returns a line for a person: what was granted and by whom, or why it was not.
func (l Lease) String() string {
	if err := l.Err(); err != nil {
		return "no lease: " + strings.TrimPrefix(err.Error(), "core: ")
	}
	s := fmt.Sprintf("lease of %d permits", l.Permits())
	if l.Permits() == 1 {
		s = "lease of 1 permit"
	}
	if name, ok := LimiterName.From(l); ok {
		s += fmt.Sprintf(" of %q", name)
	}
	return s
}

// rejected reports whether the lease counts as a rejection: a refusal that another time
// could turn into a grant.
func (l Lease) rejected() bool {
	switch o := l.outcome(); o {
	case unanswered:
		return true
	case failed:
		return errors.Is(l.Err(), ErrRejected)
	default:
		return o.rejected()
	}
}

// refusal returns the lease with its error, the same one that its Err returns from now on.
func (l Lease) refusal() (Lease, error) {
	if x := l.extra(); x != nil && x.err != nil {
		return l, x.err
	}
	switch {
	case l.outcome() == exceedsAll:
		err := l.Err()
		return l.failing(err), err
	case !l.rejected():
		return l, l.Err()
	}
	// Both in one allocation: whoever refuses many wants it cheap.
	r := new(struct {
		cell
		extra
		RejectedError
	})
	l.explain(&r.RejectedError)
	r.extra = l.carried()
	r.extra.err = &r.RejectedError
	r.cell.carry(&r.extra, l.c)
	l.c = &r.cell
	return l, &r.RejectedError
}

// failing returns the lease with an error of its own.
func (l Lease) failing(err error) Lease {
	x := l.carried()
	x.err = err
	l.c = newExtra(x, l.c)
	return l
}

// explain sets the fields of the error of a rejection.
func (l Lease) explain(e *RejectedError) {
	e.Permits = l.permits()
	if c, o := l.c, l.outcome(); c != nil && c.Limit != 0 { // else there are no terms
		e.Limiter = c.name
		e.RetryAfter = time.Duration(l.numbers().retry)
		if int(o) < len(reasonPhrases) {
			e.Reason = reasonPhrases[o]
		}
		switch {
		case o == tooSoon:
			e.Cause = context.DeadlineExceeded
		case o == queueFull && c.QueueLimit == 0:
			e.Detail = "no queue"
		case o == queueFull:
			e.Detail = "queue is full"
		}
	}
	if x := l.extra(); x != nil {
		for _, m := range x.meta {
			switch v := m.value.(type) {
			case string:
				switch m.name {
				case LimiterName.name:
					e.Limiter = v
				case ReasonPhrase.name:
					e.Reason, e.Detail = v, ""
				}
			case time.Duration:
				if m.name == RetryAfter.name {
					e.RetryAfter = v
				}
			}
		}
	}
}

// Metadata yields what the limiter says of its decision: each name once, and only what
// has a value.
func (l Lease) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range builtinNames {
			if v, ok := l.lookupBuiltin(name); ok && !l.added(name) && !yield(name, v) {
				return
			}
		}
		if x := l.extra(); x != nil {
			for _, m := range x.meta {
				if !yield(m.name, m.value) {
					return
				}
			}
		}
	}
}

// With returns a copy of the lease with metadata added; of one name the later wins. The
// copy is the same lease: releasing either releases both.
func (l Lease) With(metadata ...Metadata) Lease {
	x := l.carried()
	x.meta = mergeMetadata(x.meta, metadata)
	l.c = newExtra(x, l.c)
	return l
}

// carried returns what of the lease's extra a copy with another carries on: not the error
// of a rejection, which is made of the metadata.
func (l Lease) carried() (x extra) {
	if old := l.extra(); old != nil {
		x.meta, x.wide = old.meta, old.wide
		if o := l.outcome(); o == failed || o == exceedsAll {
			x.err = old.err
		}
	}
	if l.c != nil {
		x.of = l.home()
	}
	return x
}
