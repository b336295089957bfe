package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// The fields of a lease:
//
//	lease                    bits                                 state              at
//	concurrency limiter's    outcome 5, permits 37, generation    limit 32, left 32  0, or the instant if watched
//	  (limit 2^31 and more)  20, hot 1                            left
//	bucket's                 the same, part 1 for hot             time until full    instant - From, spare
//	  by hand                                                     left               instant at which all is due
//	  never full             the figures are in its extra         machine.Never      instant, or tick if by hand
//	window's                                                      left               instant
//	chain's, of no permits,  outcome 5, permits 37                left               reset
//	  or complete
//	rejection                outcome 5, permits 29, left 29       retry              reset
//	more than the limit      outcome 5                            permits
//
// A lease whose figures are too large for that has them in its extra.

// figures are the numbers in a lease.
type figures struct {
	permits int   // asked for
	limit   int   // in force at the decision; 0: unknown
	left    int   // available right after the decision; below 0: unknown
	retry   int64 // 0: unknown
	reset   int64 // below 0: unknown
}

const (
	outcomeBits = 5
	permitBits  = generationShift - outcomeBits
	maxPermits  = 1<<permitBits - 1
	refusedBits = 29
	maxRefused  = 1<<refusedBits - 1

	part = hot // of a rate limiter's grant: its metadata are of more permits, some of which were settled
)

// generation returns the generation of a granted lease in its home ticket.
func (l Lease) generation() uint64 { return l.bits & generationMask >> generationShift }

// permits returns the permits asked for.
func (l Lease) permits() int {
	if l.outcome().acquired() && (l.t == nil || l.t.x == nil || l.t.x.figures == nil) {
		return int(l.bits >> outcomeBits & maxPermits)
	}
	return l.figures().permits
}

// figures returns the numbers in the lease.
func (l Lease) figures() figures {
	if x := l.extra(); x != nil && x.figures != nil {
		return *x.figures
	}
	t, o := l.terms(), l.outcome()
	switch {
	case o.acquired():
		f := figures{permits: int(l.bits >> outcomeBits & maxPermits), left: -1, reset: -1}
		if t != nil {
			f.limit = t.Limit
			l.grantFigures(t, &f)
		}
		return f
	case o.rejected() && t != nil:
		return figures{
			permits: int(l.bits >> outcomeBits & maxRefused), limit: t.Limit,
			left: int(l.bits >> (outcomeBits + refusedBits)), retry: l.state, reset: l.at,
		}
	case t != nil:
		return figures{limit: t.Limit, left: -1, reset: -1}
	}
	return figures{left: -1, reset: -1}
}

// grantFigures sets what a grant under the terms t reports by its state and instant.
func (l Lease) grantFigures(t *terms, f *figures) {
	switch {
	case l.home().e == nil || l.outcome() == free: // a chain's, or of no permits
		f.left, f.reset = int(l.state), l.at
	case t.Kind == machine.TokenBucket:
		f.left, f.reset = t.bucketFigures(l.state, l.at)
	case t.Kind == machine.Window:
		f.left, f.reset = t.windowFigures(l.state, l.at)
	default:
		f.limit, f.left = t.concurrencyFigures(l.state)
	}
}

// terms returns the terms of the lease; nil if it is of none of core's limiters.
func (l Lease) terms() *terms {
	switch {
	case l.t == nil:
		return nil
	case l.t.terms != nil:
		return l.t.terms
	case l.home().terms != nil:
		return l.home().terms
	case l.home().e != nil:
		return l.home().e.epoch.Load().terms
	}
	return nil
}

// home returns the ticket that the lease's generation is of.
func (l Lease) home() *ticket {
	if l.t.x != nil && l.t.x.home != nil {
		return l.t.x.home
	}
	return l.t
}

// extra returns what the lease has beyond its fields, or nil. It is nil for the ticket of a joined
// lease, which another lease may be using by now.
func (l Lease) extra() *extra {
	if l.t == nil || l.t.x == nil || l.t.x.joined != nil {
		return nil
	}
	return l.t.x
}

// with returns the lease with x beyond its fields.
func (l Lease) with(x extra) Lease {
	k := &struct {
		ticket
		extra
	}{extra: x}
	k.ticket.attach(&k.extra, l.t)
	l.t = &k.ticket
	return l
}

// attach gives a new ticket its extra, and the terms of like, which may be nil.
func (t *ticket) attach(x *extra, like *ticket) {
	t.x = x
	if like != nil {
		t.e, t.terms = like.e, like.terms
	}
}

// carried returns the part of the lease's extra that a copy keeps: not the error of a rejection,
// which is made from the metadata.
func (l Lease) carried() (x extra) {
	if old := l.extra(); old != nil {
		x.meta, x.figures, x.lack = old.meta, old.figures, old.lack
		if o := l.outcome(); o == failed || o == exceeds {
			x.err = old.err
		}
	}
	if l.t != nil {
		x.home = l.home()
	}
	return x
}

// added returns the metadata of that name that was added to the lease.
func (l Lease) added(name string) (any, bool) {
	if x := l.extra(); x != nil {
		for _, m := range x.meta {
			if m.name == name {
				return m.value, true
			}
		}
	}
	return nil, false
}

// lookup returns the metadata of that name.
func (l Lease) lookup(name string) (any, bool) {
	if v, ok := l.added(name); ok {
		return v, true
	}
	return l.builtin(name)
}

// builtin returns the metadata of that name from the lease's own fields and terms.
func (l Lease) builtin(name string) (any, bool) {
	t := l.terms()
	if t == nil {
		return nil, false // the lease of a foreign limiter
	}
	switch name {
	case ReasonPhrase.name:
		phrase := l.outcome().phrase()
		return phrase, phrase != ""
	case LimiterName.name:
		return t.name, t.name != ""
	case PermitLimit.name:
		limit := l.figures().limit
		return limit, limit > 0
	case RetryAfter.name:
		retry := l.figures().retry
		return time.Duration(retry), retry > 0
	case Remaining.name:
		left := l.figures().left
		return left, left >= 0
	case ResetAfter.name:
		reset := l.figures().reset
		return time.Duration(reset), reset >= 0
	case Window.name:
		length := t.length()
		return time.Duration(length), length > 0
	}
	return nil, false
}
