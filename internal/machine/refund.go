package machine

import "math/bits"

// What a refund returns to a bucket.
//
// As long as no token has come since the grant, all tokens of the grant are missing, and the refund returns all of
// them. Later it is not known which of the missing tokens are the grant's. Suppose 5 tokens are taken from a full
// bucket of 10, and 3 come: the bucket would be full had the 5 not been taken, so 2 are missing because of the
// grant, and the refund returns 2. Suppose another request took 4 in the meantime: 6 are missing, but still only 2
// of them because of the grant, as the 3 tokens would otherwise have found the bucket full. Grant.missingAt
// computes their number: it is the number that would be missing if nothing had been taken or returned since.
//
// That holds only if nothing was returned in between. lastReturn is the bound otherwise.

// lastReturn is the record that a bucket keeps of returned tokens.
//
// At every instant after since, the bucket was missing at least as many tokens as floor was at that instant.
// floor starts as the state of the bucket after the last return, or with fewer missing tokens, and refills as
// if nothing more were taken. So all grants made after since and not after the last return may together return
// at most floor.missing tokens. Grants made at or before since return nothing once a token has come.
type lastReturn struct {
	floor Bucket
	since int64
	at    int64 // the instant of the last return
}

// missingAt returns how many tokens the bucket of the grant would be missing at an instant if
// nothing had been taken or returned after the grant.
func (g Grant) missingAt(t *Terms, now int64) int {
	switch {
	case g.FullAt == Never:
		return g.missingAtLeast(t, now)
	case g.FullAt <= now:
		return 0
	}
	spare := int(t.ticks(uint64(g.Missing)))*t.Step - g.Missing // the last tick has no room for these
	until := uint64(g.FullAt - now)                             // may be above MaxInt64
	if until <= uint64(t.Span) {
		return t.Step - spare
	}
	return int((until-1)/uint64(t.Span)+1)*t.Step - spare
}

// missingAtLeast is a lower bound of missingAt for a grant whose bucket is full too far in the
// future to be known. The next tick after the grant is not known either: it may have come right
// after the grant.
func (g Grant) missingAtLeast(t *Terms, now int64) int {
	if now <= g.At {
		return g.Missing
	}
	ticks := (uint64(now-g.At)-1)/uint64(t.Span) + 1 // the difference may be above MaxInt64
	hi, back := bits.Mul64(ticks, uint64(t.Step))
	if hi != 0 || back >= uint64(g.Missing) {
		return 0
	}
	return g.Missing - int(back)
}

// applied returns the instant up to which tokens have come.
func (b *Bucket) applied(t *Terms, now int64) int64 {
	if t.Manual() {
		return b.tick // nothing later was applied
	}
	return now
}

// noTokenSince reports whether no token has come between the grant and an instant, so that all tokens of the
// grant are missing. Others may have taken tokens.
func (b *Bucket) noTokenSince(t *Terms, at int64, g Grant) bool {
	return b.missing > 0 && g.Epoch == t.Epoch && g.missingAt(t, at) == g.Missing
}

func (b *Bucket) settle(t *Terms, now int64, g Grant, n int) (renewed bool) {
	if n < g.Permits {
		b.refund(t, now, g, g.Permits-n)
		return false
	}
	// If nothing was taken or returned and no token has come since the grant, it counts as a new grant of n permits.
	latest := b.missing == g.Missing && b.noTokenSince(t, now, g) && (b.last == nil || g.At > b.last.at)
	b.take(t, now, n-g.Permits)
	return latest || g.Permits == 0
}

// refund returns at most n permits of a grant: as many as are certainly still missing
// because of it.
func (b *Bucket) refund(t *Terms, now int64, g Grant, n int) {
	last := b.last
	if last != nil {
		last.floor.advance(t, b.applied(t, now))
	}
	maybeEarlier := last != nil && g.At <= last.at // the grant may have been made before the last return
	n = min(n, b.certain(t, now, g, maybeEarlier))
	if n <= 0 {
		return
	}
	if b.missing -= n; b.missing == 0 {
		b.tick, b.overdue = now, 0
	}
	if last == nil {
		last = &lastReturn{at: -1}
		b.last = last
	}
	floor := &last.floor
	if maybeEarlier {
		floor.missing -= min(n, floor.missing)
	}
	if floor.missing == 0 { // the bucket may have been full since the last return
		last.since = last.at
		*floor = Bucket{missing: b.missing, overdue: b.overdue}
	}
	floor.missing = min(floor.missing, b.missing)
	floor.tick, last.at = b.tick, now
}

// certain returns the most tokens that may be returned for a grant: those that are certainly missing because of it. If no
// token has come since the grant, all that are missing are: the caller returns no more than the grant took.
func (b *Bucket) certain(t *Terms, now int64, g Grant, maybeEarlier bool) int {
	switch {
	case g.Epoch != t.Epoch:
		return 0
	case b.noTokenSince(t, b.applied(t, now), g):
		return b.missing
	case g.Reduced: // the tokens that came may belong to the part that was returned
		return 0
	}
	n := min(b.missing, g.missingAt(t, b.applied(t, now)))
	if maybeEarlier {
		if g.At <= b.last.since {
			return 0
		}
		n = min(n, b.last.floor.missing)
	}
	return n
}
