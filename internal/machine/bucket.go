package machine

import (
	"math"
	"math/bits"
)

// Bucket is the account of a token bucket: how many tokens it lacks to be full, as of a tick of
// its clock.
type Bucket struct {
	lack int   // tokens missing as of tick; above the limit, the bucket is in debt
	tick int64 // the latest tick applied: a point of the grid that began when it left full; since when it is full, if it is
	due  int   // manual: tokens that were due at an Update and wait for Replenish; at most lack
}

// tickAfter returns the instant of the k-th tick from b.tick on, or Never. The tick before may
// lie far before the limiter's creation: an Update to a long period puts it there.
func (b *Bucket) tickAfter(t *Terms, k int64) int64 {
	if k == 0 {
		return b.tick
	}
	return after(after(b.tick, t.Span), t.later(k-1))
}

// ticksBy returns how many ticks there are from b.tick on until an instant.
func (b *Bucket) ticksBy(t *Terms, now int64) int64 {
	if now <= b.tick {
		return 0
	}
	return int64(uint64(now-b.tick) / uint64(t.Span)) // the difference may be above MaxInt64
}

// tokensBy returns how many tokens are due by an instant, at most what the bucket lacks.
func (b *Bucket) tokensBy(t *Terms, now int64) int {
	hi, n := bits.Mul64(uint64(b.ticksBy(t, now)), uint64(t.Step))
	n, carry := bits.Add64(n, uint64(b.due), 0)
	if hi+carry != 0 || n > uint64(b.lack) {
		return b.lack
	}
	return int(n)
}

// Level returns the bucket's level.
func (b *Bucket) Level(t *Terms) Level {
	if b.lack == 0 {
		return Level{Full: b.tick}
	}
	k := t.Ticks(b.lack)
	return Level{b.tickAfter(t, k), int(k)*t.Step - b.lack}
}

// SetLevel puts the bucket into the state that the level has at now.
func (b *Bucket) SetLevel(t *Terms, now int64, l Level) {
	b.lack, b.tick, b.due = l.Lack(t, now), l.Full, 0
	if b.lack > 0 {
		b.tick -= t.Ticks(b.lack) * t.Span
	}
}

func (b *Bucket) advance(t *Terms, now int64) bool {
	k := b.ticksBy(t, now)
	if b.lack == 0 || k == 0 && b.due == 0 {
		return false
	}
	switch n := b.tokensBy(t, now); {
	case n < b.lack:
		b.lack -= n
		b.tick += k * t.Span
	case t.Manual():
		b.lack, b.tick = 0, now
	default:
		b.tick = b.tickAfter(t, t.Ticks(b.lack))
		b.lack = 0
	}
	b.due = 0
	return true
}

// bind keeps the tokens that are there: growing brings none, shrinking leaves no debt. The
// next come when they would have, or one new period from now if that is sooner.
func (b *Bucket) bind(old, t *Terms, now int64) {
	switch {
	case old == nil:
		b.tick = now
		return
	case t.Manual() && b.lack > 0:
		// What is due by now waits for Replenish.
		b.due = b.tokensBy(old, now)
		b.tick += b.ticksBy(old, now) * old.Span
	default:
		b.advance(old, now) // terms that were manual till now have left it undone
	}
	wasFull := b.lack == 0
	b.lack = max(sum(b.lack, t.Limit-old.Limit), 0) // the tokens that are there stay
	b.due = min(b.due, b.lack)
	switch {
	case wasFull && b.lack == 0: // full since then
		return
	case wasFull || b.lack == 0:
		b.tick = now
		return
	}
	b.tick = min(after(b.tick, old.Span), after(now, t.Span)) - t.Span
}

// sum returns a + b, at most math.MaxInt; a is at least 0.
func sum(a, b int) int {
	if b > math.MaxInt-a {
		return math.MaxInt
	}
	return a + b
}

func (b *Bucket) available(t *Terms) int { return max(t.Limit-b.lack, 0) }

// take begins a new grid if the bucket was full.
func (b *Bucket) take(_ *Terms, now int64, n int) {
	if b.lack == 0 {
		b.tick = now
	}
	b.lack = sum(b.lack, n)
}

// still reports whether no token has come since the grant, so that all of it is missing.
func (b *Bucket) still(t *Terms, now int64, g Grant) bool {
	if t.Manual() {
		now = b.tick // nothing later was applied
	}
	return b.lack > 0 && g.lack(t, now) == g.Lack
}

// missing returns how many tokens the bucket certainly lacks because of the grant. They are at
// most what it has always lacked since: had it been full for a moment, the grant would have left
// no trace, and had it lacked three tokens, all but three of the grant's would be made up for,
// by tokens that would have found the bucket full. It was never fuller than it would have
// been if nothing had been taken after the grant and nothing given back; what was given back
// is in low.
func (b *Bucket) missing(t *Terms, now int64, g Grant, low *Bucket) int {
	switch {
	case b.still(t, now, g):
		return min(b.lack, g.Permits)
	case g.Part:
		return 0 // what has come may have been the rest's
	case t.Manual():
		now = b.tick
	}
	n := min(b.lack, g.lack(t, now))
	if low != nil {
		n = min(n, low.lack)
	}
	return n
}

func (b *Bucket) giveBack(t *Terms, now int64, g Grant, n int, low *Bucket) int {
	n = min(n, b.missing(t, now, g, low))
	if b.lack -= n; b.lack == 0 && n > 0 {
		b.tick, b.due = now, 0
	}
	return n
}

func (b *Bucket) bucket() *Bucket { return b }

func (b *Bucket) reset(_ *Terms, now int64) { *b = Bucket{tick: now} }

func (b *Bucket) ready(t *Terms, now int64, n int) int64 { return b.behind(t, now, 0, n) }

// even is true if the bucket has room for a whole tick while somebody waits for n tokens,
// and so fewer than n are there.
func (b *Bucket) even(t *Terms, n int) bool { return n <= t.Limit-t.Step+1 }

func (b *Bucket) behind(t *Terms, now int64, ahead, n int) int64 {
	need, carry := bits.Add64(uint64(ahead)+uint64(n), uint64(b.lack), 0)
	switch {
	case carry != 0 || need > math.MaxInt64+uint64(t.Limit):
		return Never
	case need <= uint64(t.Limit):
		return now
	}
	return b.tickAfter(t, t.ticksFor(need-uint64(t.Limit)))
}

func (b *Bucket) whole(t *Terms, now int64) int64 {
	if b.lack == 0 {
		return now
	}
	return b.tickAfter(t, t.Ticks(b.lack-b.due))
}

func (b *Bucket) idle(*Terms) (int64, bool) { return b.tick, b.lack == 0 }

func (b *Bucket) clone() Account {
	c := *b
	return &c
}

// Tick returns the instant of the latest tick applied.
func (b *Bucket) Tick() int64 { return b.tick }

// Due returns the tokens that were due at an Update and wait for Replenish.
func (b *Bucket) Due() int { return b.due }

// Lack returns the tokens that the bucket lacked at the latest tick applied.
func (b *Bucket) Lack() int { return b.lack }
