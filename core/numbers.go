package core

import "time"

// numbers is what a lease tells in figures. A lease's own fields hold them like this:
//
//	outcome       bits, from the lowest                  u     v
//	free          outcome 5, generation 20, permits 39   left  reset
//	held…         outcome 5, generation 20, permits 39   left  reset
//	watched…      outcome 5, generation 20, permits 39   left  instant
//	of a watched limiter: limit 32, left 32 for left; a rejection has the limit for retry
//	spentWindow   outcome 5, generation 20, permits 39   left  instant
//	spentBucket   outcome 5, generation 20, permits 39   reset spare, instant: see spentAt
//	spentManual   outcome 5, generation 20, permits 39   left  instant at which all is due
//	of a bucket that an Update made set tokens aside: left and those, for left
//	exhaustedRaw  outcome 5, generation 20, permits 39   word  instant
//	rejected      outcome 5, permits 29, left 29         retry reset
//
// Figures that are too large for it are in extra.wide.
type numbers struct {
	permits int   // asked for
	left    int   // available right after the decision; below 0: unknown
	retry   int64 // 0: unknown
	reset   int64 // below 0: unknown
	tick    int64 // a bucket's latest tick at the grant, if it would be full at machine.Never
}

const (
	permitBits  = 64 - outcomeBits - generationBits
	maxPermits  = 1<<permitBits - 1
	refusedBits = 29
	maxRefused  = 1<<refusedBits - 1
)

// granted returns the bits of a granted lease; n is at most maxPermits.
func granted(o outcome, generation uint64, n int) uint64 {
	return uint64(o) | generation<<outcomeBits | uint64(n)<<(outcomeBits+generationBits)
}

// newGrant returns an acquired lease; u and v are what the outcome has there.
func newGrant(c *cell, o outcome, generation uint64, permits int, u, v int64) Lease {
	if uint64(permits) <= maxPermits {
		return Lease{c: c, bits: granted(o, generation, permits), u: u, v: v}
	}
	l := Lease{c: c, bits: granted(o, generation, 0), u: u, v: v}
	wide := l.numbers()
	wide.permits = permits
	l.c = newExtra(extra{of: c, wide: &wide}, c)
	return l
}

// newRejection returns a lease that is not acquired.
func newRejection(c *cell, o outcome, n, left int, retry, reset int64) Lease {
	if n <= maxRefused && left <= maxRefused {
		return Lease{c: c, bits: uint64(o) | uint64(n)<<outcomeBits | uint64(left)<<(outcomeBits+refusedBits), u: retry, v: reset}
	}
	wide := extra{of: c, wide: &numbers{permits: n, left: left, retry: retry, reset: reset}}
	return Lease{c: newExtra(wide, c), bits: uint64(o)}
}

// generation returns the generation of the lease in its home cell.
func (l Lease) generation() uint64 { return l.bits >> outcomeBits & maxGeneration }

// permits returns the permits asked for.
func (l Lease) permits() int {
	if o := l.outcome(); l.c == nil || l.c.x == nil && o <= watchedTicket {
		return int(l.bits >> (outcomeBits + generationBits))
	}
	return l.numbers().permits
}

// numbers returns the lease's figures.
func (l Lease) numbers() numbers {
	if x := l.extra(); x != nil && x.wide != nil {
		return *x.wide
	}
	n := numbers{permits: int(l.bits >> (outcomeBits + generationBits)), left: -1, reset: -1}
	switch l.outcome() {
	case free, heldHot, heldTicket:
		n.left, n.reset = l.left(), l.v
	case watchedHot, watchedTicket:
		n.left = l.left()
	case spentManual:
		n.left = int(l.u)
	case spentWindow:
		n.left = int(l.u)
		if t := l.home().terms; !t.Manual() {
			n.reset = t.Back(t.Segment(l.v)) - l.v
		}
	case spentBucket:
		t := l.home().terms
		_, spare := t.spentWhen(l.v)
		n.left, n.reset = t.Limit-t.missing(l.u, spare), l.u
	case exhaustedRaw:
		t := l.home().terms
		now := l.v - t.From
		k := t.unpack(uint64(l.u), now)
		n.left, n.reset, n.retry = t.Limit-t.missing(k.full-now, k.spare), k.full-now, k.retry(t, n.permits, now)
	case exhausted, queueFull, evicted, tooSoon:
		n.permits = int(l.bits >> outcomeBits & maxRefused)
		n.left = int(l.bits >> (outcomeBits + refusedBits))
		if n.reset = l.v; !l.c.watched() {
			n.retry = l.u
		}
	default:
		n.permits = 0
	}
	return n
}

const (
	notedBits = 32 // of the permits left, in a watched limiter's grants; above is the limit
	maxNoted  = 1<<(notedBits-1) - 1
)

// note makes a watched limiter's lease say what limit was in force.
func (l Lease) note(limit int64) Lease {
	switch o := l.outcome(); {
	case o.rejected():
		l.u = limit
	case !l.Acquired():
	case l.c.Limit <= maxNoted:
		l.u |= limit << notedBits
	default:
		l = l.With(PermitLimit.With(int(limit)))
	}
	return l
}

// limit returns the limit that was in force at the decision.
func (l Lease) limit() int {
	noted := int64(0)
	switch o := l.outcome(); {
	case !l.c.watched():
	case o.rejected():
		noted = l.u
	case l.Acquired() && l.c.Limit <= maxNoted:
		noted = l.u >> notedBits
	}
	if noted == 0 {
		return l.c.Limit
	}
	return int(noted)
}

// left returns the permits left after a grant that has them in its own field.
func (l Lease) left() int {
	if l.c != nil && l.c.watched() && l.c.Limit <= maxNoted {
		return int(l.u & (1<<notedBits - 1))
	}
	return int(l.u)
}

// added reports whether metadata of that name was added to the lease.
func (l Lease) added(name string) bool {
	if x := l.extra(); x != nil {
		for _, m := range x.meta {
			if m.name == name {
				return true
			}
		}
	}
	return false
}

// lookup returns the metadata of that name.
func (l Lease) lookup(name string) (any, bool) {
	if x := l.extra(); x != nil {
		for _, m := range x.meta {
			if m.name == name {
				return m.value, true
			}
		}
	}
	return l.lookupBuiltin(name)
}

// lookupBuiltin returns the metadata of that name from the lease's own fields and terms.
func (l Lease) lookupBuiltin(name string) (any, bool) {
	if l.c == nil || l.c.Limit == 0 {
		return nil, false // no terms: somebody else's limiter
	}
	switch name {
	case ReasonPhrase.name:
		if o := int(l.outcome()); o < len(reasonPhrases) && reasonPhrases[o] != "" {
			return reasonPhrases[o], true
		}
	case LimiterName.name:
		return l.c.name, l.c.name != ""
	case PermitLimit.name:
		return l.limit(), true
	case RetryAfter.name:
		retry := l.numbers().retry
		return time.Duration(retry), retry > 0
	case Remaining.name:
		left := l.numbers().left
		return left, left >= 0
	case ResetAfter.name:
		reset := l.numbers().reset
		return time.Duration(reset), reset >= 0
	case Window.name:
		length := l.c.length()
		return time.Duration(length), length > 0
	}
	return nil, false
}
