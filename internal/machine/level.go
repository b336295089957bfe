package machine

import "math/bits"

// Level is the state of a token bucket, written as the instant at which the bucket is full
// again if nothing more is taken, and the number of tokens of the last tick for which it then
// has no room. With m ticks to come until it is full, the bucket lacks m·Step-Spare tokens.
type Level struct {
	Full  int64
	Spare int
}

// How much of a packed word may go without the level: less room for core's counting makes
// more epochs, and so does less time ahead of Full.
const (
	mostGenerationBits  = 20
	leastGenerationBits = 8
	leastFullBits       = 27 // 134 ms
)

// Pack chooses the packing of a bucket's level. There is none for a bucket that is replenished
// by hand, or whose limit times period is above about 2^54 token-nanoseconds.
func (t *Terms) Pack() {
	spare := bits.Len64(uint64(t.Step - 1))
	hi, reach := bits.Mul64(uint64(t.Ticks(t.Limit)), uint64(t.Span))
	full := max(bits.Len64(reach)+1, leastFullBits)
	t.StateBits, t.SpareBits, t.Periods = 0, uint8(spare), 0
	if t.Manual() || hi != 0 || spare+full > 63-leastGenerationBits || uint64(t.Limit/t.Step) >= 1<<32 {
		return
	}
	full = max(full, 63-mostGenerationBits-spare)
	t.StateBits, t.Periods = uint8(full+spare), uint32(t.Limit/t.Step)
}

// FullBits returns the number of bits of a packed level's instant.
func (t *Terms) FullBits() uint8 { return t.StateBits - t.SpareBits }

// Unpack returns the level of a word at now; Full and now are nanoseconds since From. If the
// bucket is full, the level's Full is now.
func (t *Terms) Unpack(word uint64, now int64) Level {
	word &= 1<<(t.StateBits&63) - 1
	full := int64(word >> (t.SpareBits & 63))
	if full <= now {
		return Level{Full: now}
	}
	return Level{full, int(word - uint64(full)<<(t.SpareBits&63))}
}

// Word returns the packed level.
func (t *Terms) Word(l Level) uint64 { return uint64(l.Full)<<(t.SpareBits&63) | uint64(l.Spare) }

// Fits reports whether the level's instant fits into its bits.
func (t *Terms) Fits(l Level) bool { return uint64(l.Full)>>(t.FullBits()&63) == 0 }

// Less returns the level after taking n tokens. They were available at now if the result is
// full again within its [Level.Reach] from now.
func (l Level) Less(t *Terms, n int) Level {
	if l.Spare -= n; l.Spare < 0 {
		l.Full += t.Span
		if l.Spare += t.Step; l.Spare < 0 {
			return l.later(t)
		}
	}
	return l
}

// later returns the level with as many ticks more as the tokens below 0 need.
func (l Level) later(t *Terms) Level {
	k := t.Ticks(-l.Spare)
	return Level{l.Full + k*t.Span, l.Spare + int(k)*t.Step}
}

// Reach returns how far ahead of now Full can be, with this spare, if no more than the limit is
// taken: of m ticks to come, m·Step-Spare is at most the limit.
func (l Level) Reach(t *Terms) int64 {
	ticks := int64(t.Periods)
	if t.Limit-int(t.Periods)*t.Step+l.Spare >= t.Step {
		ticks++
	}
	return ticks * t.Span
}

// Lack returns how many tokens the bucket lacks at now.
func (l Level) Lack(t *Terms, now int64) int {
	until := uint64(l.Full - now) // may be above MaxInt64
	switch {
	case l.Full <= now:
		return 0
	case until <= uint64(t.Span): // saves a division
		return t.Step - l.Spare
	}
	return int((until+uint64(t.Span)-1)/uint64(t.Span))*t.Step - l.Spare
}
