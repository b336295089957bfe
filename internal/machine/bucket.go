package machine

import (
	"math"
	"math/bits"
)

// Bucket is the account of a token bucket: how many tokens are missing for it to be full, as of
// a tick of its clock.
type Bucket struct {
	missing int         // tokens that are missing at tick; above the limit, the bucket is in debt
	tick    int64       // the instant of the latest tick applied; while the bucket is full: since when it is
	overdue int         // manual: tokens that were due at an Update and wait for Replenish; at most missing
	last    *lastReturn // nil means that no tokens were returned
}

// Try is that of an [Account].
func (b *Bucket) Try(t *Terms, now int64, n int) (left int, fullAt, readyAt int64, ok bool) {
	if uint64(now-b.tick) >= uint64(t.Span) { // saves a call (bench: bucket)
		b.advance(t, now)
	}
	if left = t.Limit - b.missing; n > left {
		return max(left, 0), b.fullAt(t, now), b.readyAt(t, now, n), false
	}
	b.take(t, now, n)
	if b.missing <= t.Step { // saves a division (bench: bucket)
		return left - n, after(b.tick, t.Span), 0, true
	}
	return left - n, b.tickAfter(t, t.ticks(uint64(b.missing))), 0, true
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
	if d := uint64(now - b.tick); d >= uint64(t.Span) { // the difference may be above MaxInt64
		return int64(d / uint64(t.Span))
	}
	return 0
}

// tokensBy returns how many tokens come with k ticks, at most those that are missing.
func (b *Bucket) tokensBy(t *Terms, k int64) int {
	hi, n := bits.Mul64(uint64(k), uint64(t.Step))
	n, carry := bits.Add64(n, uint64(b.overdue), 0)
	if hi+carry != 0 || n > uint64(b.missing) {
		return b.missing
	}
	return int(n)
}

func (b *Bucket) advance(t *Terms, now int64) bool {
	if b.missing == 0 {
		return false
	}
	if b.missing <= t.Step && !t.Manual() && now > b.tick && uint64(now-b.tick) >= uint64(t.Span) {
		b.missing, b.tick, b.overdue = 0, b.tick+t.Span, 0 // the next tick fills it: saves divisions (bench: bucket)
		return true
	}
	k := b.ticksBy(t, now)
	if k == 0 && b.overdue == 0 {
		return false
	}
	switch n := b.tokensBy(t, k); {
	case n < b.missing:
		b.missing -= n
		b.tick += k * t.Span
	case t.Manual():
		b.missing, b.tick = 0, now
	default:
		b.tick = b.tickAfter(t, t.ticks(uint64(b.missing)))
		b.missing = 0
	}
	b.overdue = 0
	return true
}

// bind keeps the available tokens: a larger limit adds none, and a smaller one leaves no debt. The next tokens
// come when they would have come before, or one new period from now if that is sooner.
func (b *Bucket) bind(old, t *Terms, now int64) {
	b.last = nil
	switch {
	case old == nil:
		b.tick = now
		return
	case t.Manual() && b.missing > 0:
		// Tokens that are due by now wait for Replenish.
		k := b.ticksBy(old, now)
		b.overdue = b.tokensBy(old, k)
		b.tick += k * old.Span
	default:
		b.advance(old, now) // not done yet if the old terms were manual
	}
	wasFull := b.missing == 0
	b.missing = max(sum(b.missing, t.Limit-old.Limit), 0) // the tokens that are there stay
	b.overdue = min(b.overdue, b.missing)
	switch {
	case wasFull && b.missing == 0: // full since then
		return
	case wasFull || b.missing == 0:
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

func (b *Bucket) available(t *Terms) int { return max(t.Limit-b.missing, 0) }

// take starts a new grid if the bucket was full.
func (b *Bucket) take(_ *Terms, now int64, n int) {
	if b.missing == 0 {
		b.tick = now
	}
	b.missing = sum(b.missing, n)
}

func (b *Bucket) keeps(*Terms, *Terms) bool { return false }

// record: if a manual bucket will never be full, a grant counts from the latest tick that was applied.
func (b *Bucket) record(t *Terms, now, fullAt int64) (at int64, missing int) {
	if t.Manual() && fullAt == Never {
		now = b.tick
	}
	return now, b.missing - b.overdue
}

// giveBack returns n tokens. It is not known which grants took them, so once a token has come, earlier grants
// return nothing.
func (b *Bucket) giveBack(_ *Terms, now int64, n int) bool {
	if n = min(n, b.missing); n == 0 {
		return true
	}
	b.missing -= n
	if b.overdue = min(b.overdue, b.missing); b.missing == 0 {
		b.tick = now
	}
	b.last = &lastReturn{floor: Bucket{missing: b.missing, tick: b.tick, overdue: b.overdue}, since: now, at: now}
	return true
}

func (b *Bucket) mostPlayed(*Terms) int { return mostPlayed }

func (b *Bucket) reset(_ *Terms, now int64) { *b = Bucket{tick: now} }

func (b *Bucket) readyAt(t *Terms, now int64, n int) int64 { return b.servedAt(t, now, 0, n) }

// uniformTo: while a request waits for at most Limit-Step+1 tokens, at most Limit-Step are in the bucket. So a
// whole tick fits, and no token is lost.
func (b *Bucket) uniformTo(t *Terms) int { return t.Limit - t.Step + 1 }

func (b *Bucket) servedAt(t *Terms, now int64, ahead, n int) int64 {
	need, carry := bits.Add64(uint64(ahead)+uint64(n), uint64(b.missing), 0)
	switch {
	case carry != 0 || need > math.MaxInt64+uint64(t.Limit):
		return Never
	case need <= uint64(t.Limit):
		return now
	}
	return b.tickAfter(t, t.ticks(need-uint64(t.Limit)))
}

func (b *Bucket) fullAt(t *Terms, now int64) int64 {
	if b.missing == 0 {
		return now
	}
	return b.tickAfter(t, t.ticks(uint64(b.missing-b.overdue)))
}

func (b *Bucket) idle(*Terms) (int64, bool) { return b.tick, b.missing == 0 }

func (b *Bucket) clone() Account {
	c := *b
	c.last = nil // the future that is played returns nothing
	return &c
}
