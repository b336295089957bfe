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

// AtMost returns the rate at which this number of tokens comes together. Its period is rounded up to the nanosecond,
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

// Tolerance is the relative error with which a rate is kept where that is possible.
const Tolerance = 1e-9

// Smooth returns the rate of n tokens a second: one token a period, rounded to the nearest nanosecond, if
// PerSecond still tells n by that. Otherwise it is Of.
func Smooth(n, most int) Rate {
	if one := Nearest(1, n, time.Second); one.PerSecond() == float64(n) {
		return one
	}
	r, _ := Of(float64(n), most)
	if r.PerSecond() != float64(n) { // it may be exactly half the Tolerance away
		if s := simplest(float64(n), max(most, 1), Tolerance/2.001); s.PerSecond() == float64(n) {
			return s
		}
	}
	return r
}

// Of returns the rate of perSecond tokens a second, to within Tolerance, with the fewest tokens a period, at most
// most. If there is none, it returns the closest. PerSecond reads it to within Tolerance, too, if half as many tokens
// are enough. A rate above most tokens each nanosecond is lowered to that. Of returns false if perSecond is not above
// 0, not finite, or so low that the period of one token is too long for a time.Duration.
func Of(perSecond float64, most int) (Rate, bool) {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) || float64(time.Second)/perSecond >= math.MaxInt64 {
		return Rate{}, false
	}
	most = max(most, 1)
	if perSecond/float64(time.Second) >= float64(most) {
		return Rate{most, 1}, true
	}
	one := Rate{1, time.Duration(max(math.Round(float64(time.Second)/perSecond), 1))}
	if off(one.exact(), perSecond) <= Tolerance && one.PerSecond() == perSecond {
		return one, true
	}
	r := simplest(perSecond, most, Tolerance/2) // PerSecond may be as far from r
	if off(r.PerSecond(), perSecond) > Tolerance {
		if s := simplest(perSecond, most/2, Tolerance); most >= 2 && off(s.exact(), perSecond) <= Tolerance {
			return Rate{2 * s.Tokens, 2 * s.Period}, true // which PerSecond does not round
		}
	}
	return r, true
}

// packet is the payload of a TCP packet on Ethernet.
const packet = 1460

// Bytes returns a token bucket for a bandwidth of n bytes in the time per: the bytes that the bucket holds, which are those
// of 10 ms, but at least a packet, and the rate. The rate has a period from 10 microseconds to a millisecond if that is exact.
// Otherwise it is the one with the fewest tokens a period that is exact to within Tolerance, or that is closest to the rate
// if one millisecond has too few bytes for that.
func Bytes(n int, per time.Duration) (burst int, r Rate) {
	burst = max(Within(n, per, 10*time.Millisecond), packet)
	r, ok := Exact(n, per, 10*time.Microsecond, time.Millisecond)
	if !ok {
		r, ok = Of(float64(n)/per.Seconds(), Within(n, per, time.Millisecond))
	}
	if !ok { // slower than Of can tell
		r = Nearest(1, n, per)
	}
	return burst, r
}

// simplest returns the rate that is x tokens a second to within a relative error, with the fewest tokens a
// period, at most most; the closest if there is none.
//
// It follows the continued fraction of a, the period of one token. Of all fractions that are as close to a, the
// one with the smallest denominator is a convergent or lies between two: it is (p0 + j*p1) / (k0 + j*k1),
// where p0/k0 and p1/k1 are successive convergents, and its error falls as j grows.
func simplest(x float64, most int, within float64) Rate {
	a := float64(time.Second) / x
	p0, k0, p1, k1 := 0.0, 1.0, 1.0, 0.0
	for rest := a; ; {
		whole := math.Floor(rest)
		j := whole
		if k1 > 0 || p0 > 0 || whole >= 1 {
			d0, d1 := math.Abs(p0-a*k0), math.Abs(p1-a*k1)
			j = min(whole, max(1, math.Ceil((d0-within*a*k0)/(d1+within*a*k1))))
		}
		last := k0+j*k1 > float64(most)
		if last {
			j = math.Floor((float64(most) - k0) / k1)
		}
		p, k := p0+j*p1, k0+j*k1
		if last && k1 > 0 && p1 >= 1 && (p < 1 || math.Abs(p1/k1-a) <= math.Abs(p/k-a)) {
			p, k = p1, k1
		}
		if last || rest == whole || j < whole || p >= 1 && math.Abs(p/k-a) <= within*a {
			return Rate{int(k), time.Duration(max(math.Round(k*a), 1))}
		}
		p0, k0, p1, k1 = p1, k1, p, k
		rest = 1 / (rest - whole)
	}
}

// off returns the relative difference of a from b.
func off(a, b float64) float64 { return math.Abs(a/b - 1) }

// exact returns the tokens that come per second.
func (r Rate) exact() float64 { return float64(r.Tokens) / float64(r.Period) * float64(time.Second) }

// PerSecond returns the tokens that come per second, or the whole number or the number of six digits that
// is the same to within half the Tolerance. If one token comes in the period of a whole number of tokens a second,
// rounded to the nanosecond, that is the number: one token in 142,857,143 ns is 7. If Tokens and Period are both even,
// the result is exact: see Of.
func (r Rate) PerSecond() float64 {
	if r.Tokens <= 0 || r.Period <= 0 {
		return 0
	}
	x, within := r.exact(), Tolerance/2
	if r.Tokens%2 == 0 && r.Period%2 == 0 {
		within = 1e-15 // the rounding of exact
	}
	// Half a nanosecond of the period is half a token a second if x equals the period. Above that, several
	// whole numbers have the same period.
	n := math.Round(x)
	if n >= 1 && (off(x, n) <= within || x < float64(r.Period) && Nearest(1, int(n), time.Second) == r) {
		return n
	}
	digits := math.Pow(10, 5-math.Floor(math.Log10(x))) // so that six are whole
	if y := math.Round(x*digits) / digits; off(x, y) <= within {
		return y
	}
	return x
}
