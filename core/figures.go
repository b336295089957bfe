package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// The fields of a lease:
//
//	bits   outcome 5, permits 37, generation 20, hot 1     a grant; a rate limiter's: part 1
//	       outcome 5, permits 29, left 29                  a rejection
//	state  what was left after a grant: see grantFigures   a rejection's retry
//	at     the instant of a grant                          a rejection's reset
//
// A lease whose figures are too large for that has them in its extra.

// figures are the numbers that a lease tells.
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

	part = hot // of a rate limiter's grant: what it told is of more permits, some of which were settled
)

// grant returns the lease of n permits that a limiter has granted.
func grant(t *ticket, o outcome, generation uint64, n int, state, at int64) Lease {
	l := Lease{t: t, bits: uint64(o) | generation<<generationShift, state: state, at: at}
	if uint64(n) <= maxPermits {
		l.bits |= uint64(n) << outcomeBits
		return l
	}
	f := l.figures()
	f.permits = n
	return l.with(extra{home: t, figures: &f})
}

// reject returns the lease of a rejection under the terms of t.
func reject(t *ticket, o outcome, f figures) Lease {
	l := Lease{t: t, bits: uint64(o), state: f.retry, at: f.reset}
	if f.permits <= maxRefused && f.left <= maxRefused {
		l.bits |= uint64(f.permits)<<outcomeBits | uint64(f.left)<<(outcomeBits+refusedBits)
		return l
	}
	wide := f // f itself stays on the stack
	wide.limit = t.Limit
	return l.with(extra{figures: &wide})
}

// generation returns the generation of a granted lease in its home ticket.
func (l Lease) generation() uint64 { return l.bits & generationMask >> generationShift }

// permits returns the permits asked for.
func (l Lease) permits() int {
	if l.outcome().acquired() && (l.t == nil || l.t.x == nil || l.t.x.figures == nil) {
		return int(l.bits >> outcomeBits & maxPermits)
	}
	return l.figures().permits
}

// figures returns the numbers that the lease tells.
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

// grantFigures sets what a grant under the terms t tells by its state and instant.
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

// extra returns what the lease has beyond its fields. The ticket of a joined lease is not part
// of it: it may be another lease's by now.
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
