package core

import (
	"math/bits"

	"github.com/sluice-go/sluice/internal/machine"
)

// level is the state of a token bucket as its cell's word has it: the instant at which
// the bucket is full again if nothing more is taken, and how many of the last tick's
// tokens it then has no room for. With m ticks to come until full, it lacks m·Step-spare.
//
// The word holds spare in its low bits, full above, as nanoseconds since the cell's From,
// and the generation on top. A bucket for which a word is too small lends a credit instead;
// one that is replenished by hand does all under the mutex.
type level struct {
	full  int64
	spare int
}

// How much of a bucket's word may go without full: fewer generations make more cells, and
// less time ahead of full does too.
const (
	leastGenerationBits = 8
	leastFullBits       = 27 // 134 ms
)

// layOut chooses the word of a bucket: its level if that fits.
func layOut(t *machine.Terms) {
	spare := bits.Len64(uint64(t.Step - 1))
	t.SpareBits = uint8(spare)
	hi, reach := bits.Mul64(uint64(t.Ticks(t.Limit)), uint64(t.Span))
	full := max(bits.Len64(reach)+1, leastFullBits)
	if t.Manual() || hi != 0 || spare+full > 63-leastGenerationBits || uint64(t.Limit/t.Step) >= 1<<32 {
		return
	}
	full = max(full, 63-generationBits-spare)
	t.StateBits, t.Periods = uint8(full+spare), uint32(t.Limit/t.Step)
}

// unpack returns the level at now, both in nanoseconds since From.
func (t *terms) unpack(word uint64, now int64) level {
	word &= 1<<(t.StateBits&63) - 1
	full := int64(word >> (t.SpareBits & 63))
	if full <= now {
		return level{full: now} // full: the clock stands still
	}
	return level{full, int(word - uint64(full)<<(t.SpareBits&63))}
}

// pack returns the word that follows w, with the next generation; false: there is none,
// or the instant is too far ahead.
func (t *terms) pack(w uint64, l level) (uint64, bool) {
	next := (w | (1<<(t.StateBits&63) - 1)) + 1 + t.levelWord(l)
	return next, next&shut == 0 && uint64(l.full)>>(t.fullBits()&63) == 0
}

// levelWord returns the word of a level, with generation 0.
func (t *terms) levelWord(l level) uint64 { return uint64(l.full)<<(t.SpareBits&63) | uint64(l.spare) }

// fullBits returns how many bits of the word the instant has.
func (t *terms) fullBits() uint8 { return t.StateBits - t.SpareBits }

// less returns the level after taking n tokens. They were there at now if it is full again
// within reach.
func (l level) less(t *terms, n int) level {
	if l.spare -= n; l.spare < 0 {
		l.full += t.Span
		if l.spare += t.Step; l.spare < 0 {
			return l.later(t)
		}
	}
	return l
}

// later returns the level with as many ticks more as the tokens owed need.
func (l level) later(t *terms) level {
	k := t.Ticks(-l.spare)
	return level{l.full + k*t.Span, l.spare + int(k)*t.Step}
}

// reach returns how far ahead full can be, with such a spare, if no token is owed: of m
// ticks to come, m·Step-spare is at most the limit.
func (l level) reach(t *terms) int64 {
	ticks := int64(t.Periods)
	if t.Limit-int(t.Periods)*t.Step+l.spare >= t.Step {
		ticks++
	}
	return ticks * t.Span
}

// lendable returns how many tokens may be taken from a bucket that would be full at an
// instant without bringing it to one too late to tell.
func (t *terms) lendable(full int64) int64 {
	hi, n := bits.Mul64(uint64(machine.Never-full)/uint64(t.Span), uint64(t.Step))
	if hi != 0 || n > maxWindow {
		return maxWindow
	}
	return int64(n)
}

// missing returns the tokens that a bucket lacks for so long before it is full.
func (t *terms) missing(untilFull int64, spare int) int {
	ticks := uint64(1)
	if untilFull == 0 {
		ticks = 0
	} else if untilFull > t.Span { // else spare a division
		ticks = (uint64(untilFull) + uint64(t.Span) - 1) / uint64(t.Span)
	}
	return int(ticks)*t.Step - spare
}

// retry returns when n permits that are not there at now will be: both in nanoseconds since
// From.
func (l level) retry(t *terms, n int, now int64) int64 {
	after := l.less(t, n)
	return after.full - after.reach(t) - now
}

// spentAt packs, for a bucket's lease, how long after the cell's From the grant was, and
// the spare of its level after it.
func (t *terms) spentAt(now int64, spare int) int64 {
	return now | int64(uint64(spare)<<(-t.SpareBits&63)) // with no bits for it, spare is 0
}

// spentWhen is the reverse of spentAt.
func (t *terms) spentWhen(v int64) (now int64, spare int) {
	shift := 64 - t.SpareBits
	return int64(uint64(v) & (1<<shift - 1)), int(uint64(v) >> shift)
}

// spare returns the spare of a bucket's level in which so many tokens are left.
func (t *terms) spare(left int) int {
	lack := t.Limit - left
	return int(t.Ticks(lack))*t.Step - lack
}
