package core

import (
	"math/bits"
	"sync/atomic"
)

// bucket is the account of a token bucket: what it lacks to be full, as of a tick of its
// clock.
type bucket struct {
	t    *terms
	lack int   // tokens missing as of tick; above the limit after that shrank
	tick int64 // the latest tick applied: a point of the grid that began when it left full
	full int64 // if lack is 0: since when

	// Of a credit in the cell's word: its tick, and what was available beyond it.
	lentAt atomic.Int64
	beyond atomic.Int64
}

// ticks returns how many ticks bring at least n tokens.
func (t *terms) ticks(n int) int64 {
	return int64((uint64(n) + uint64(t.step) - 1) / uint64(t.step))
}

// periodsOf returns how long k periods are, or never.
func (t *terms) periodsOf(k int64) int64 {
	hi, lo := bits.Mul64(uint64(k), uint64(t.span))
	if hi != 0 || lo > never {
		return never
	}
	return int64(lo)
}

// tickAfter returns the instant of the k-th tick from now on, or never.
func (b *bucket) tickAfter(k int64) int64 { return after(b.tick, b.t.periodsOf(k)) }

// bind keeps the clock going; but if more than a new period has passed since the last
// tick, the next is one period from now: no tokens at a new rate for time gone by.
func (b *bucket) bind(now int64, t *terms) {
	if b.t = t; !t.manual && now-b.tick >= t.span {
		b.tick = now
	}
}

func (b *bucket) advance(now int64) bool {
	elapsed := now - b.tick
	if elapsed < b.t.span {
		return false
	}
	k := elapsed / b.t.span
	due := b.tickAfter(b.t.ticks(b.lack))
	b.tick += k * b.t.span
	switch hi, back := bits.Mul64(uint64(k), uint64(b.t.step)); {
	case b.lack == 0:
		return false
	case hi == 0 && back < uint64(b.lack):
		b.lack -= int(back)
	case b.t.manual:
		b.lack, b.full = 0, now
	default:
		b.lack, b.full = 0, due
	}
	return true
}

func (b *bucket) available() int { return max(b.t.limit-b.lack, 0) }

// take begins a new grid if the bucket was full: now, but for somebody who waited when his
// tokens were there. However late he was woken, the ticks after him keep their time.
func (b *bucket) take(now int64, n int, served bool) {
	if b.lack == 0 {
		if b.tick = now; served && b.full < now {
			b.tick -= (now - b.full) % b.t.span
		}
	}
	b.lack += n
}

func (b *bucket) give(now, _ int64, n int) {
	if b.lack == 0 {
		return
	}
	if b.lack = max(b.lack-n, 0); b.lack == 0 {
		b.full = now
	}
}

func (b *bucket) ready(now int64, n int) int64 {
	need := n - (b.t.limit - b.lack)
	if need <= 0 {
		return now
	}
	return b.tickAfter(b.t.ticks(need))
}

func (b *bucket) whole(now int64) int64 {
	if b.lack == 0 {
		return now
	}
	return b.tickAfter(b.t.ticks(b.lack))
}

func (b *bucket) since(int64) (int64, bool) { return b.full, b.lack == 0 }

// kept is true unless the bucket stood full at a tick that would have brought more.
func (b *bucket) kept(due, now int64) bool { return b.lack > 0 || now-due < b.t.span }

func (b *bucket) clone() account {
	return &bucket{t: b.t, lack: b.lack, tick: b.tick, full: b.full}
}

// origin lets a cell's word tell until when the bucket has been full, or reach as far
// ahead as it must.
func (b *bucket) origin(now int64, c *cell) (int64, bool) {
	from := now
	if b.lack == 0 {
		from = b.full
	}
	return from, c.fullBits <= 0 || from >= c.from && from-c.from < 1<<c.fullBits>>1
}

// open lends the level if it fits into the word; else what is available, as a credit that
// is good while the bucket can't have become full: as long as there is room for all that
// comes, it does not matter whether tokens are taken before or after.
func (b *bucket) open(now int64, c *cell) (uint64, int64, bool) {
	if c.fullBits > 0 && b.lack <= c.limit {
		return c.levelWord(b.level(c)), never, true
	}
	if b.lack == 0 || b.lack >= c.limit {
		return 0, 0, false
	}
	until := int64(never)
	if !c.manual {
		until = b.whole(now)
	}
	credit := min(uint64(c.limit-b.lack), maxCredit)
	b.lentAt.Store(b.tick)
	b.beyond.Store(int64(c.limit-b.lack) - int64(credit))
	return credit, until, true
}

// level returns the bucket's level for c.
func (b *bucket) level(c *cell) level {
	if b.lack == 0 {
		return level{full: b.full - c.from}
	}
	k := c.ticks(b.lack)
	return level{b.tickAfter(k) - c.from, int(k)*c.step - b.lack}
}

// left returns what is available at now if credit is left of what was lent, and how long
// ago the latest tick was.
func (b *bucket) left(c *cell, credit, now int64) (left, sinceTick int64) {
	left = credit + b.beyond.Load()
	if c.manual {
		return left, 0
	}
	elapsed := uint64(now - b.lentAt.Load())
	k := elapsed / uint64(c.span)
	return left + int64(k)*int64(c.step), int64(elapsed - k*uint64(c.span))
}

func (b *bucket) settle(now int64, c *cell, state uint64) {
	if c.fullBits <= 0 {
		b.lack = c.limit - int(state) - int(b.beyond.Load())
		return
	}
	now -= c.from
	l := c.unpack(state, now)
	if l.full == now {
		full := int64(state>>c.spareBits) + c.from
		b.lack, b.full, b.tick = 0, full, full
		return
	}
	b.lack = c.missing(l, now)
	b.tick = l.full + c.from - int64(c.ticksUntil(l, now))*c.span
}
