// Package rates writes a rate of n tokens in the time per as tokens that are added once each period, as a token
// bucket needs it. It computes with integers of 128 bits; a result above the maximum of its type is lowered to that.
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

// AtMost returns the rate at which this number of tokens comes together. Its period is rounded up to the nanosecond,
// so that the rate of n in per is not exceeded, except that no period is shorter than a nanosecond.
func AtMost(tokens, n int, per time.Duration) Rate {
	return Rate{tokens, time.Duration(mulDiv(uint64(tokens), uint64(per), uint64(n)-1, uint64(n)))}
}

// Nearest is AtMost with the period rounded to the nearest nanosecond.
func Nearest(tokens, n int, per time.Duration) Rate {
	return apart{uint64(per), uint64(n)}.times(uint64(tokens))
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

// Within returns how many tokens are added in d, rounded down. n and d may be 0.
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

// A rate is kept to within one part in tolerance where that is possible.
const tolerance = 1_000_000_000

// Smooth returns the rate of n tokens a second: one token a period, rounded to the nearest nanosecond, if
// PerSecond still tells n by that. Otherwise it is Of.
func Smooth(n, most int) Rate {
	if one := Nearest(1, n, time.Second); one.tells(uint64(n), 2*tolerance) {
		return one
	}
	return apart{uint64(time.Second), uint64(n)}.fit(most)
}

// Of returns the rate of perSecond tokens a second, to within the tolerance, with the fewest tokens a period, at most
// most. If there is none, it returns the closest. PerSecond reads it to within the tolerance, too, if half as many tokens
// are enough. A rate above most tokens each nanosecond is lowered to that. Of returns false if perSecond is not above
// 0, not finite, or so low that the period of one token is too long for a time.Duration.
func Of(perSecond float64, most int) (Rate, bool) {
	a, ok := apartOf(perSecond)
	if !ok {
		return Rate{}, false
	}
	return a.fit(most), true
}

// packet is the payload of a TCP packet on Ethernet.
const packet = 1460

// Bytes returns a token bucket for a bandwidth of n bytes in the time per: the bytes that the bucket holds, which are those
// of 10 ms, but at least a packet, and the rate. The rate has a period from 10 microseconds to a millisecond if that is exact.
// Otherwise it is the one with the fewest tokens a period that is exact to within Tolerance, or that is closest to the rate
// if one millisecond has too few bytes for that.
func Bytes(n int, per time.Duration) (burst int, r Rate) {
	burst = max(Within(n, per, 10*time.Millisecond), packet)
	if r, ok := Exact(n, per, 10*time.Microsecond, time.Millisecond); ok {
		return burst, r
	}
	return burst, apart{uint64(per), uint64(n)}.fit(Within(n, per, time.Millisecond))
}

// apart is the time between two tokens, n/d nanoseconds. Both are from 1 to math.MaxInt64.
type apart struct{ n, d uint64 }

// apartOf is for a number of tokens per second. It is exact for a whole number, and as exact as a float64 for any other below
// 1<<30, above which the nearest whole number is as good.
func apartOf(perSecond float64) (apart, bool) {
	whole := math.Round(perSecond)
	switch {
	case !(perSecond > 0) || math.IsInf(perSecond, 1):
		return apart{}, false
	case whole >= 1<<62:
		return apart{1, uint64(min(whole/float64(time.Second), 1<<62))}, true
	case whole == perSecond || whole >= 1<<30:
		return apart{uint64(time.Second), uint64(whole)}, true
	}
	n := float64(time.Second) / perSecond
	_, exponent := math.Frexp(n)
	shift := max(62-exponent, 0)
	n = math.Ldexp(n, shift)
	return apart{uint64(n), 1 << shift}, n < math.MaxInt64
}

// fit is like Of, but without a float.
func (a apart) fit(most int) Rate {
	limit := uint64(max(most, 1))
	if one := a.times(1); a.n == uint64(time.Second) && one.within(a, tolerance) && one.tells(a.d, 2*tolerance) {
		return one
	}
	if hi, lo := bits.Mul64(a.n, limit); hi == 0 && lo <= a.d {
		return Rate{int(limit), 1}
	}
	r := a.simplest(limit, 2*tolerance) // PerSecond may be as far from r
	if limit >= 2 && (!r.within(a, 2*tolerance) || r.nearest(r.in(uint64(time.Second)))) {
		if s := a.simplest(limit/2, tolerance); s.within(a, tolerance) {
			return Rate{2 * s.Tokens, 2 * s.Period} // which PerSecond does not round
		}
	}
	return r
}

// times returns the rate at which this number of tokens comes together.
func (a apart) times(tokens uint64) Rate {
	return Rate{int(tokens), time.Duration(max(mulDiv(tokens, a.n, a.d/2, a.d), 1))}
}

// simplest returns the rate that is exact to within one part in parts, with the fewest tokens a period, at most most; the
// closest if there is none.
//
// It follows the continued fraction of a by Euclid's algorithm. Of all fractions that are as close to a, the one with the
// smallest denominator is a convergent or lies between two: its denominator is k0 + j*k1, where k0 and k1 are those of
// successive convergents. The remainders n and d are their distances from a, times their denominators: that of the fraction
// is n - j*d, which falls as j grows.
func (a apart) simplest(most, parts uint64) Rate {
	k0, k1 := uint64(1), uint64(0)
	for n, d := a.n, a.d; ; {
		whole := n / d
		last := whole
		if k1 > 0 {
			last = min(whole, (most-k0)/k1)
		}
		near := func(j uint64) bool { return !less(a.n, k0+j*k1, parts, n-j*d) }
		j := last
		for first := uint64(0); first < j; { // the first that is close enough, or last
			if middle := first + (j-first)/2; near(middle) {
				j = middle
			} else {
				first = middle + 1
			}
		}
		k, rest := k0+j*k1, n-j*d
		switch {
		case near(j):
			return a.times(k)
		case last < whole && less(rest, k1, d, k):
			return a.times(k)
		case last < whole:
			return a.times(k1)
		}
		n, d, k0, k1 = d, rest, k1, k
	}
}

// within reports whether the rate is exact to within one part in parts; if parts is 0, whether it is exact.
func (r Rate) within(a apart, parts uint64) bool {
	hi, lo := bits.Mul64(uint64(r.Period), a.d)
	wantHi, wantLo := bits.Mul64(uint64(r.Tokens), a.n)
	lo, borrow := bits.Sub64(lo, wantLo, 0)
	if hi, borrow = bits.Sub64(hi, wantHi, borrow); borrow > 0 {
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	if parts == 0 {
		return hi == 0 && lo == 0
	}
	mostHi, rest := wantHi/parts, wantHi%parts
	mostLo, _ := bits.Div64(rest, wantLo, parts)
	return hi < mostHi || hi == mostHi && lo <= mostLo
}

// less reports whether a*b < c*d.
func less(a, b, c, d uint64) bool {
	hi, lo := bits.Mul64(a, b)
	otherHi, otherLo := bits.Mul64(c, d)
	return hi < otherHi || hi == otherHi && lo < otherLo
}

// PerSecond returns the tokens that are added per second, or the whole number or the number of six digits that is the
// same to within half the tolerance. If one token is added in the period of a whole number of tokens a second, rounded
// to the nanosecond, that is the number: one token in 142,857,143 ns is 7. If Tokens and Period are both even, the
// result is exact: see Of.
func (r Rate) PerSecond() float64 {
	if r.Tokens <= 0 || r.Period <= 0 {
		return 0
	}
	parts := uint64(2 * tolerance)
	if r.Tokens%2 == 0 && r.Period%2 == 0 {
		parts = 0
	}
	if n := r.in(uint64(time.Second)); r.tells(n, parts) {
		return float64(n)
	}
	for scale := uint64(10); scale <= 1e10; scale *= 10 {
		unit := scale * uint64(time.Second)
		if n := r.in(unit); n >= 100_000 { // six digits, or more
			if n < 1_000_000 && r.within(apart{unit, n}, parts) {
				return float64(n) / float64(scale)
			}
			break
		}
	}
	return float64(r.Tokens) / float64(r.Period) * float64(time.Second)
}

// in returns how many tokens are added in d nanoseconds, rounded to the nearest.
func (r Rate) in(d uint64) uint64 {
	return mulDiv(uint64(r.Tokens), d, uint64(r.Period)/2, uint64(r.Period))
}

// tells reports whether PerSecond returns n for the rate: n is the same to within one part in parts, or nearest.
func (r Rate) tells(n, parts uint64) bool {
	return r.within(apart{uint64(time.Second), n}, parts) || r.nearest(n)
}

// nearest reports whether one token is added in the period of n tokens a second, rounded to the nanosecond, and of no other
// number. Half a nanosecond of the period is half a token a second if 1e9/Period equals Period. Above that, several whole
// numbers have the same period.
func (r Rate) nearest(n uint64) bool {
	p := uint64(r.Period)
	return r.Tokens == 1 && n >= 1 && less(uint64(time.Second), 1, p, p) && Nearest(1, int(n), time.Second) == r
}
