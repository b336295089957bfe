package core

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Lease is a limiter's answer: the permits it granted, or why it did not.
//
// It is a small value. It may be copied, stored, sent over channels and released from
// any goroutine; all copies are the same lease. The zero Lease is not acquired.
type Lease struct {
	c     *cell  // the terms of the built-in limiter that decided; nil: another limiter did
	x     *extra // what few leases need beyond these fields; nil: nothing
	bits  uint64 // generation<<8 | outcome
	n     int    // permits asked for
	left  int    // permits available right after the decision
	at    int64  // granted: when; refused: retry after, 0 if unknown
	reset int64  // reset after; below 0 if unknown. See cell.remaining for a bucket's fast path.
}

// outcome is the low byte of Lease.bits.
type outcome uint8

const (
	unanswered  outcome = iota // the zero lease, and Reject's
	free                       // granted; nothing to give back
	spent                      // granted by a rate limiter; the generation is the grant's number in its cell
	heldHot                    // granted by a concurrency limiter; its cell's word holds the generation
	heldTicket                 // granted; a ticket holds the generation
	exhausted                  // refused
	queueFull                  // refused
	evicted                    // refused
	tooSoon                    // refused
	closed                     // refused: ErrClosed
	exceedsAll                 // refused: ErrPermitsExceedLimit
	negative                   // refused: ErrNegativePermits
	failed                     // refused: extra.err
	outcomeBits = 8
)

var reasonPhrases = [...]string{
	exhausted: "permits exhausted",
	queueFull: "queue limit reached",
	evicted:   "evicted by a newer request",
	tooSoon:   "deadline too soon",
	failed:    "",
}

// extra is what few leases need: a ticket, an error, metadata of the user's.
type extra struct {
	// gen is a ticket's generation. The lease of generation g is released by whoever
	// moves gen from g to g+1, once; from then on no lease of g can release anything,
	// however often the ticket is used again. 56 bits do not come round.
	gen     atomic.Uint64
	ticket  *extra          // the ticket, if it is not this; set by With
	release func()          // a ticket of Grant
	chain   *ChainedLimiter // a ticket of a chain
	links   []Lease         // a chain's leases, in its order

	err  error      // the refusal's error: fixed if the outcome is failed, else made before
	meta []Metadata // each name once
	_    [16]byte   // tickets of different cores share no cache line
}

// tickets holds tickets that are not in use. They belong to no limiter.
var tickets = sync.Pool{New: func() any { return new(extra) }}

func (l Lease) outcome() outcome { return outcome(l.bits) }

func (l Lease) generation() uint64 { return l.bits >> outcomeBits }

// Acquired reports whether the permits were granted. It stays true after Release.
func (l Lease) Acquired() bool {
	o := l.outcome()
	return o >= free && o <= heldTicket
}

// Permits returns how many permits were granted: 0 for a probe, and unless acquired.
func (l Lease) Permits() int {
	if !l.Acquired() {
		return 0
	}
	return l.n
}

// Release gives a concurrency limiter's permits back: once, whichever copy is used, from
// whichever goroutines, however often. To a lease that holds nothing it does nothing. A
// rate limiter's permits come back with time alone.
func (l Lease) Release() {
	switch l.outcome() {
	case heldHot:
		l.c.releaseHot(l)
	case heldTicket:
		l.redeem((*extra).settle)
	}
}

// redeem uses up the lease's ticket and, if this call is the one that does, settles it.
func (l Lease) redeem(settle func(*extra, Lease)) {
	t := l.x
	if t.ticket != nil {
		t = t.ticket
	}
	// Of any number of copies and goroutines one moves the generation; a lease from long
	// ago finds a later one. The winner alone touches the ticket's other fields, and only
	// then is the ticket free to be used again.
	if g := l.generation(); t.gen.CompareAndSwap(g, g+1) {
		settle(t, l)
	}
}

// settle gives back what a redeemed ticket stands for.
func (t *extra) settle(l Lease) {
	switch {
	case t.chain != nil:
		t.chain.release(t)
	case t.release != nil:
		release := t.release
		t.release = nil
		release()
	case l.c != nil:
		tickets.Put(t)
		l.c.e.giveBack(l.n)
	}
}

// Err returns nil if the lease was acquired. Else it says why not: a *[RejectedError],
// [ErrClosed], [ErrPermitsExceedLimit], [ErrNegativePermits], or the error that the
// limiter gave to [Refuse].
func (l Lease) Err() error {
	if l.Acquired() {
		return nil
	}
	if l.x != nil && l.x.err != nil {
		return l.x.err
	}
	switch l.outcome() {
	case closed:
		return ErrClosed
	case exceedsAll:
		return ErrPermitsExceedLimit
	case negative:
		return ErrNegativePermits
	}
	e := &RejectedError{Permits: l.n}
	e.Limiter, _ = LimiterName.From(l)
	e.Reason, _ = ReasonPhrase.From(l)
	e.RetryAfter, _ = RetryAfter.From(l)
	if l.outcome() == tooSoon {
		e.Cause = context.DeadlineExceeded
	}
	return e
}

// rejected reports whether the lease counts as a rejection: a refusal that another time
// could turn into a grant.
func (l Lease) rejected() bool {
	o := l.outcome()
	return o == unanswered || o >= exhausted && o <= tooSoon
}

// refusal returns the lease with its error, the same one that its Err returns from now on.
func (l Lease) refusal() (Lease, error) {
	err := l.Err()
	if l.rejected() && (l.x == nil || l.x.err == nil) {
		x := &extra{err: err}
		if l.x != nil {
			x.meta = l.x.meta
		}
		l.x = x
	}
	return l, err
}

// Metadata yields what the limiter says of its decision: each name once, and only what
// has a value.
func (l Lease) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, name := range builtinNames {
			if v, ok := l.lookupBuiltin(name); ok && !l.hasExtra(name) && !yield(name, v) {
				return
			}
		}
		if l.x == nil {
			return
		}
		for _, m := range l.x.meta {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// With returns a copy of the lease with metadata added; of one name the later wins. The
// copy is the same lease: releasing either releases both.
func (l Lease) With(metadata ...Metadata) Lease {
	x := new(extra)
	if old := l.x; old != nil {
		x.meta = old.meta
		if l.outcome() == failed {
			x.err = old.err
		}
		if l.outcome() == heldTicket {
			x.ticket = old
			if old.ticket != nil {
				x.ticket = old.ticket
			}
		}
	}
	x.meta = mergeMetadata(x.meta, metadata)
	l.x = x
	return l
}

// hasExtra reports whether metadata of that name was added to the lease.
func (l Lease) hasExtra(name string) bool {
	if l.x == nil {
		return false
	}
	for _, m := range l.x.meta {
		if m.name == name {
			return true
		}
	}
	return false
}

// lookup returns the metadata of that name.
func (l Lease) lookup(name string) (any, bool) {
	if l.x != nil {
		for _, m := range l.x.meta {
			if m.name == name {
				return m.value, true
			}
		}
	}
	return l.lookupBuiltin(name)
}

// lookupBuiltin returns the metadata of that name from the lease's own fields.
func (l Lease) lookupBuiltin(name string) (any, bool) {
	switch name {
	case RetryAfter.name:
		if o := l.outcome(); o >= exhausted && o <= tooSoon && l.at > 0 {
			return time.Duration(l.at), true
		}
	case ReasonPhrase.name:
		if o := int(l.outcome()); o < len(reasonPhrases) && reasonPhrases[o] != "" {
			return reasonPhrases[o], true
		}
	case LimiterName.name:
		if l.c != nil && l.c.name != "" {
			return l.c.name, true
		}
	case PermitLimit.name:
		if l.c != nil {
			return l.c.limit, true
		}
	case Remaining.name:
		if left, ok := l.remaining(); ok {
			return left, true
		}
	case ResetAfter.name:
		if reset, ok := l.resetAfter(); ok {
			return reset, true
		}
	}
	return nil, false
}

// remaining is REMAINING as the lease's own fields have it.
func (l Lease) remaining() (int, bool) {
	if l.c == nil || l.left < 0 {
		return 0, false
	}
	return l.left, true
}

// resetAfter is RESET_AFTER as the lease's own fields have it.
func (l Lease) resetAfter() (time.Duration, bool) {
	if l.c == nil || l.reset < 0 {
		return 0, false
	}
	return time.Duration(l.reset), true
}
