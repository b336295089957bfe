// Package rates writes a rate of n tokens in the time per as tokens that come once each period, as a token
// bucket needs it. It computes with 128 bits; a result above the maximum of its type is lowered to that.
//
// Except where a function says otherwise, n, tokens and per are at least 1.
package rates

import (
	"math"
	"math/bits"
	"time"
)

// Rate is a rate at which Tokens come once each Period. Both are at least 1.
type Rate struct {
	Tokens int
	Period time.Duration
}

// AtMost returns the rate at which this number of tokens comes at once. Its period is rounded up to the nanosecond,
// so that the rate of n in per is not exceeded, except that no period is shorter than a nanosecond.
func AtMost(tokens, n int, per time.Duration) Rate {
	return Rate{tokens, time.Duration(mulDiv(uint64(tokens), uint64(per), uint64(n)-1, uint64(n)))}
}

// Nearest is AtMost with the period rounded to the nearest nanosecond.
func Nearest(tokens, n int, per time.Duration) Rate {
	period := mulDiv(uint64(tokens), uint64(per), uint64(n)/2, uint64(n))
	return Rate{tokens, time.Duration(max(period, 1))}
}

// Exact returns the rate with the shortest period, from least to most, that is exact. It returns false if
// there is none.
func Exact(n int, per, least, most time.Duration) (Rate, bool) {
	divisor := gcd(uint64(n), uint64(per))
	tokens, period := uint64(n)/divisor, uint64(per)/divisor
	k := (uint64(max(least, 1)) + period - 1) / period
	if k > uint64(most)/period || k > math.MaxInt/tokens {
		return Rate{}, false
	}
	return Rate{int(tokens * k), time.Duration(period * k)}, true
}

// Within returns how many tokens come in d, rounded down. n and d may be 0.
func Within(n int, per, d time.Duration) int {
	return int(min(mulDiv(uint64(n), uint64(d), 0, uint64(per)), math.MaxInt))
}

// mulDiv returns (a*b + add) / c, at most math.MaxInt64.
func mulDiv(a, b, add, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, add, 0)
	hi += carry
	if hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, math.MaxInt64)
}

// gcd returns the greatest number that divides both.
func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
