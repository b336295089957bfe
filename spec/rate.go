package spec

import (
	"math"
	"math/bits"
	"time"
)

// rate is a bucket's limit, its tokens and its period.
type rate struct {
	burst  int
	tokens int // come each period
	period time.Duration
}

const (
	leastPeriod = time.Microsecond // of single permits
	mostPeriod  = time.Millisecond // of more than one
	byteTime    = 10 * time.Millisecond
)

// rate returns the bucket of a valid limit; see the package's documentation.
func (l Limit) rate() rate {
	permits, per := uint64(l.Permits), uint64(l.Per)
	r := rate{burst: l.burst()}
	g := divisor(permits, per)
	switch {
	case per/uint64(leastPeriod) >= permits:
		r.tokens, r.period = 1, time.Duration(mulDiv(per, 1, permits, permits-1))
	case per/g <= uint64(mostPeriod):
		r.tokens, r.period = int(permits/g), time.Duration(per/g)
	default:
		r.tokens, r.period = atMostInt(mulDiv(permits, uint64(mostPeriod), per, 0)), mostPeriod
	}
	if r.tokens > r.burst {
		r.tokens = r.burst
		if l.Bytes {
			// A full bucket loses the tokens that come, so a reader that looks only now and then would lose
			// a part of each period if a whole burst came at once.
			r.tokens = max(1, r.burst/8)
		}
		r.period = time.Duration(mulDiv(uint64(r.tokens), per, permits, permits-1))
	}
	return r
}

// burst returns the token limit of a bucket.
func (l Limit) burst() int {
	switch {
	case l.Burst != 0:
		return l.Burst
	case l.Bytes:
		return max(1, atMostInt(mulDiv(uint64(l.Permits), uint64(byteTime), uint64(l.Per), 0)))
	}
	return l.Permits
}

// mulDiv returns (a*b + add) / c, at most math.MaxInt64, wherever an int has fewer bits.
func mulDiv(a, b, c, add uint64) int64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, add, 0)
	hi += carry
	if hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return int64(min(q, math.MaxInt64))
}

func atMostInt(n int64) int { return int(min(n, math.MaxInt)) }

// divisor returns the greatest number that divides both.
func divisor(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
