package core

import "math/bits"

// level is the state of a token bucket as its cell's word has it: the instant at which
// the bucket is full again if nothing more is taken, and how many of the last tick's
// tokens it then has no room for. With m ticks to come until full, it lacks m·step-spare.
//
// The word holds spare in its low bits, full above, as nanoseconds since the cell's from,
// and the generation on top. A bucket for which a word is too small lends a credit instead.
type level struct {
	full  int64
	spare int
}

// How much of a bucket's word may go without full: fewer generations make more cells, and
// less time ahead of full does too.
const (
	leastGenerationBits = 8
	leastFullBits       = 30 // about a second
)

// layOut chooses the word of a bucket: its level if that fits.
func (t *terms) layOut() {
	spare := bits.Len64(uint64(t.step - 1))
	hi, reach := bits.Mul64(uint64(t.ticks(t.limit)), uint64(t.span))
	full := max(bits.Len64(reach)+1, leastFullBits)
	if t.manual || hi != 0 || spare+full > 63-leastGenerationBits || uint64(t.limit/t.step) >= 1<<32 {
		return
	}
	full = max(full, 63-generationBits-spare)
	t.fullBits, t.spareBits, t.periods = int8(full), uint8(spare), uint32(t.limit/t.step)
}

// unpack returns the level at now, both in nanoseconds since from.
func (t *terms) unpack(word uint64, now int64) level {
	full := int64(word >> (t.spareBits & 63) & (1<<(t.fullBits&63) - 1))
	if full <= now {
		return level{full: now} // full: the clock stands still
	}
	return level{full, int(word & (1<<(t.spareBits&63) - 1))}
}

// pack returns the word that follows w, with the next generation; false: there is none,
// or the instant is too far ahead.
func (t *terms) pack(w uint64, l level) (uint64, bool) {
	shift := t.stateBits() & 63
	next := (w>>shift+1)<<shift | t.levelWord(l)
	return next, next&shut == 0 && uint64(l.full)>>(t.fullBits&63) == 0
}

// levelWord returns the word of a level, with generation 0.
func (t *terms) levelWord(l level) uint64 { return uint64(l.full)<<(t.spareBits&63) | uint64(l.spare) }

// less returns the level after taking n tokens, and whether they were there at now.
func (l level) less(t *terms, n int, now int64) (level, bool) {
	if l.spare -= n; l.spare < 0 {
		if l.full, l.spare = l.full+t.span, l.spare+t.step; l.spare < 0 {
			l = l.later(t)
		}
	}
	return l, l.full-now <= l.reach(t)
}

// later returns the level with as many ticks more as the tokens owed need.
func (l level) later(t *terms) level {
	k := t.ticks(-l.spare)
	return level{l.full + k*t.span, l.spare + int(k)*t.step}
}

// reach returns how far ahead full can be, with such a spare, if no token is owed: of m
// ticks to come, m·step-spare is at most the limit.
func (l level) reach(t *terms) int64 {
	ticks := int64(t.periods)
	if t.limit-int(t.periods)*t.step+l.spare >= t.step {
		ticks++
	}
	return ticks * t.span
}

// ticksUntil returns the ticks that come after now, until full.
func (t *terms) ticksUntil(l level, now int64) uint64 {
	return (uint64(l.full-now) + uint64(t.span) - 1) / uint64(t.span)
}

// missing returns the tokens that a bucket lacks at now.
func (t *terms) missing(l level, now int64) int {
	return int(t.ticksUntil(l, now))*t.step - l.spare
}

// read sets the figures of a lease: the word as it was after the decision at the instant
// at.
func (t *terms) read(n *numbers, word uint64, at int64) {
	now := at - t.from
	l := t.unpack(word, now)
	n.left, n.reset = t.limit-t.missing(l, now), l.full-now
}

// retry returns when n permits that are not there at the instant at will be.
func (t *terms) retry(n int, word uint64, at int64) int64 {
	now := at - t.from
	l, _ := t.unpack(word, now).less(t, n, now)
	return l.full - l.reach(t) - now
}
