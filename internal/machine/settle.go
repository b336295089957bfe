package machine

import "math/bits"

// Grant is what Settle needs to know about the grant of a rate limiter.
type Grant struct {
	Number  uint64 // a limiter's grants have rising numbers, from 1
	Permits int
	At      int64 // the instant of the grant
	Lack    int   // a bucket's: the tokens missing right after it, but for those that were due
	Level   Level // a bucket's: its level right after it, but for those; Full may be Never
	Part    bool  // of the grant some was settled before, so it is not known how much of Lack is the rest's
}

// lack returns how many tokens the bucket of the grant would lack at now if nothing had been
// taken after it and nothing given back.
func (g Grant) lack(t *Terms, now int64) int {
	if g.Level.Full != Never {
		return g.Level.Lack(t, now)
	}
	// Full is too far off to be known, and so is when the next tick was due: it may have come
	// right after the grant.
	ticks := (uint64(max(now-g.At, 0)) + uint64(t.Span) - 1) / uint64(t.Span)
	hi, back := bits.Mul64(ticks, uint64(t.Step))
	if hi != 0 || back >= uint64(g.Lack) {
		return 0
	}
	return g.Lack - int(back)
}

// settled is what a rate limiter remembers of the grants that were settled.
type settled struct {
	spent replayWindow

	// A bucket has lacked at least what low does, at any time since the grant of the number
	// begun. Low is the bucket as the latest settlement left it, or less, and what it lacks
	// becomes less with time, as if nothing were taken. So it bounds what leases from before a
	// settlement may give back.
	low         Bucket
	begun, last uint64 // last: of the latest grant at the latest settlement
}

// replayWindow reports whether a number comes for the first time: the anti-replay window of IPsec,
// without bit shifting (RFC 6479). It remembers at least the latest 1,985 numbers. When an older
// one comes, it makes room for twice the age of that, up to maxBlocks.
type replayWindow struct {
	blocks []uint64 // a bit for each number of the latest blocks of 64; their number is a power of two
	top    uint64   // the latest block that is in blocks
	lost   uint64   // in the blocks before it, numbers came that were forgotten
}

const (
	minBlocks = 32
	maxBlocks = 4096 // 32 KiB, for 262,080 numbers
)

// first reports whether the number comes for the first time; known is false if it is too old
// to tell. The latest number is last.
func (r *replayWindow) first(number, last uint64) (first, known bool) {
	block, bit := number/64, uint64(1)<<(number%64)
	r.grow(2 * (max(last, number)/64 - block))
	n := uint64(len(r.blocks))
	mask := n - 1
	if block < r.lost || block+n <= r.top {
		return true, false
	}
	for i := max(r.top+1, block-min(block, mask)); i <= block; i++ {
		if r.blocks[i&mask] != 0 {
			r.blocks[i&mask], r.lost = 0, min(r.top, i-n)+1
		}
	}
	r.top = max(r.top, block)
	first = r.blocks[block&mask]&bit == 0
	r.blocks[block&mask] |= bit
	return first, true
}

// grow makes room for at least want blocks, or for maxBlocks.
func (r *replayWindow) grow(want uint64) {
	old := uint64(len(r.blocks))
	if old > 0 && (want <= old || old == maxBlocks) {
		return
	}
	n := max(old, minBlocks)
	for n < want && n < maxBlocks {
		n *= 2
	}
	blocks := make([]uint64, n)
	for i := r.top + 1 - min(old, r.top+1); old > 0 && i <= r.top; i++ {
		blocks[i%n] = r.blocks[i%old]
	}
	r.blocks = blocks
}

// Settlement is the result of settling a grant.
type Settlement uint8

// The settlements.
const (
	Spent    Settlement = iota // it was settled before; nothing happened
	Settled                    // it may be settled again, under the next number
	Renewed                    // the same; all of it is missing, as of a grant of this instant
	Complete                   // it will give nothing back any more
)

// Settle records that a rate limiter's grant has cost n permits. If it has cost less, the
// difference is given back, as far as it is certain to be still missing because of the grant;
// if it has cost more, the difference is taken, available or not. Waiters that now fit are
// served. A grant is settled once. What is left of it may be settled again, as a grant of the
// same instant with the number last+1; last is the number of the latest grant.
func (m *Machine[Value]) Settle(now int64, g Grant, n int, last uint64) Settlement {
	if m.settled == nil {
		m.settled = new(settled)
	}
	first, known := m.settled.spent.first(g.Number, last)
	if !first {
		return Spent
	}
	certain := known && g.Number > m.floor && m.covered(now, g)
	settlement := Complete
	if certain {
		settlement = Settled
	}
	switch {
	case n > g.Permits:
		// Were there grants since, what they tell would not be of the permits that are taken now. What
		// is due already, and waits for Replenish, is for what was taken first.
		if b := m.account.bucket(); b != nil && certain && g.Number == last &&
			min(b.missing(m.t, now, g, m.low(g)), g.lack(m.t, now)) >= g.Permits {
			settlement = Renewed
		}
		m.account.take(m.t, now, n-g.Permits)
	case certain:
		m.giveBack(now, g, g.Permits-n, last)
	}
	if s := m.settled; n > 0 && settlement == Settled && g.Number <= s.last {
		s.last = last + 1 // low is for what is left of it, too
	}
	if m.queue != nil {
		m.queue.plan = nil
	}
	m.serve(now)
	return settlement
}

// covered reports whether it is known what a bucket has lacked since the grant.
func (m *Machine[Value]) covered(now int64, g Grant) bool {
	b, s := m.account.bucket(), m.settled
	if b == nil {
		return true
	}
	if s.low.lack > 0 {
		if m.t.Manual() {
			now = b.tick // nothing later was applied
		}
		s.low.advance(m.t, now)
	}
	// Once low lacks nothing, the bucket may have been full.
	return b.still(m.t, now, g) || g.Number > s.last || s.low.lack > 0 && g.Number > s.begun
}

// low returns a lower bound of what a bucket has lacked since the grant; nil if nothing was given
// back since, so that the grant itself tells.
func (m *Machine[Value]) low(g Grant) *Bucket {
	if g.Number > m.settled.last {
		return nil
	}
	return &m.settled.low
}

// giveBack gives back at most n permits of a grant.
func (m *Machine[Value]) giveBack(now int64, g Grant, n int, last uint64) {
	b, s := m.account.bucket(), m.settled
	if b == nil {
		m.account.giveBack(m.t, now, g, n, nil)
		return
	}
	low := m.low(g)
	given := b.giveBack(m.t, now, g, n, low)
	if given == 0 {
		return
	}
	if low != nil {
		low.lack = max(low.lack-given, 0) // it bounds what all such leases may give back together
	}
	if s.low.lack == 0 {
		s.begun, s.low = s.last, *b
	}
	s.low.lack, s.low.tick, s.last = min(s.low.lack, b.lack), b.tick, last
}

// forget records that grants up to a number give nothing back any more.
func (m *Machine[Value]) forget(last uint64) {
	m.floor = last
	if s := m.settled; s != nil {
		s.low, s.begun, s.last = Bucket{}, 0, 0
	}
}

// Take takes n permits, available or not.
func (m *Machine[Value]) Take(now int64, n int) {
	m.account.take(m.t, now, n)
	if m.queue != nil {
		m.queue.plan = nil
	}
}
