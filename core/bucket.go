package core

import "math/bits"

// bucket is the account of a token bucket: what it lacks to be full, as of a tick of its
// clock.
type bucket struct {
	limit  int
	tokens int   // that come each period
	period int64 // above 0

	lack   int   // tokens missing as of tick; above the limit after that shrank
	tick   int64 // the latest tick applied: a point of the grid that began when it left full
	full   int64 // if lack is 0: since when
	manual bool
}

// ticksFor returns the number of ticks until at least n tokens have come.
func (b *bucket) ticksFor(n int) int64 {
	return int64((uint64(n) + uint64(b.tokens) - 1) / uint64(b.tokens))
}

// tickAfter returns the instant of the k-th tick from now on, or never.
func (b *bucket) tickAfter(k int64) int64 {
	hi, lo := bits.Mul64(uint64(k), uint64(b.period))
	if hi != 0 || lo > never {
		return never
	}
	return after(b.tick, int64(lo))
}

func (b *bucket) advance(now int64) bool {
	elapsed := now - b.tick
	if elapsed < b.period {
		return false
	}
	k := elapsed / b.period
	due := b.tickAfter(b.ticksFor(b.lack))
	b.tick += k * b.period
	switch hi, back := bits.Mul64(uint64(k), uint64(b.tokens)); {
	case b.lack == 0:
		return false
	case hi == 0 && back < uint64(b.lack):
		b.lack -= int(back)
	case b.manual:
		b.lack, b.full = 0, now
	default:
		b.lack, b.full = 0, due
	}
	return true
}

func (b *bucket) available() int { return max(b.limit-b.lack, 0) }

// take begins a new grid if the bucket was full: now, but for somebody who waited when his
// tokens were there. However late he was woken, the ticks after him keep their time.
func (b *bucket) take(now int64, n int, served bool) {
	if b.lack == 0 {
		if b.tick = now; served && b.full < now {
			b.tick -= (now - b.full) % b.period
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
	need := n - (b.limit - b.lack)
	if need <= 0 {
		return now
	}
	return b.tickAfter(b.ticksFor(need))
}

func (b *bucket) whole(now int64) int64 {
	if b.lack == 0 {
		return now
	}
	return b.tickAfter(b.ticksFor(b.lack))
}

func (b *bucket) since(int64) (int64, bool) { return b.full, b.lack == 0 }

// kept is true unless the bucket stood full at a tick that would have brought more.
func (b *bucket) kept(due, now int64) bool { return b.lack > 0 || now-due < b.period }

func (b *bucket) open(int64) (int, int64, int64) { return -1, 0, 0 }

func (b *bucket) settle(int) {}

func (b *bucket) clone() account {
	c := *b
	return &c
}
