package ioreader

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/core"
)

// PerSecond returns the options of a token bucket for a bandwidth in bytes per second. The bucket
// holds the bytes of 10 ms, at least one: it lets through at most 1 % more than the rate in the
// first second, and at most twice the rate in any 10 ms. Tokens are replenished at least once per
// millisecond, or one at a time at rates below 1000 bytes per second. The rate is exact to within
// one millionth. QueueLimit is math.MaxInt, so any number of calls may wait.
//
// Any rate from 1 to math.MaxInt works. If bytes < 1, core.NewTokenBucket rejects the options.
func PerSecond(bytes int) core.TokenBucketOptions {
	o := core.TokenBucketOptions{QueueLimit: math.MaxInt}
	if bytes <= 0 {
		o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = bytes, bytes, time.Second
		return o
	}
	o.TokenLimit = max(bytes/100, 1)
	tokens, period := fraction(uint64(bytes))
	o.TokensPerPeriod, o.ReplenishmentPeriod = int(tokens), time.Duration(period)
	return o
}

const (
	second      = uint64(time.Second)
	shortest    = uint64(10 * time.Microsecond)
	longest     = uint64(time.Millisecond)
	oneByteRate = second / uint64(time.Millisecond) // at lower rates one byte takes longer than longest
)

// fraction returns tokens per period, in nanoseconds, for a rate in bytes per second. It takes
// the first convergent of the rate's continued fraction that is within a ten-millionth of it, or
// else the last one whose period is at most longest. In the second case the next convergent has a
// period above longest, so the relative error is below 1/(tokens·longest), a millionth.
func fraction(bytes uint64) (tokens, period uint64) {
	if bytes < oneByteRate {
		return 1, (second + bytes/2) / bytes
	}
	n, d := bytes, second
	var n0, d0, n1, d1 uint64 = 0, 1, 1, 0
	for d > 0 {
		q := n / d
		n, d = d, n-q*d
		if q > 0 && d1 > longest/q || q*d1+d0 > longest {
			break
		}
		n0, d0, n1, d1 = n1, d1, q*n1+n0, q*d1+d0
		if n1 > 0 && near(bytes, n1, d1) {
			break
		}
	}
	k := max((shortest+d1-1)/d1, 1)
	return n1 * k, d1 * k
}

// near reports whether n per d nanoseconds is within a ten-millionth of bytes per second.
func near(bytes, n, d uint64) bool {
	have := product(n, second)
	want := product(bytes, d)
	if have.less(want) {
		have, want = want, have
	}
	diff := have.minus(want)
	return diff.hi == 0 && diff.lo <= want.dividedBy(10_000_000)
}

// wide is a number of 128 bits.
type wide struct{ hi, lo uint64 }

func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (w wide) less(v wide) bool { return w.hi < v.hi || w.hi == v.hi && w.lo < v.lo }

func (w wide) minus(v wide) wide {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	hi, _ := bits.Sub64(w.hi, v.hi, borrow)
	return wide{hi, lo}
}

// dividedBy returns w/d, or math.MaxUint64 if the quotient is larger.
func (w wide) dividedBy(d uint64) uint64 {
	if w.hi >= d {
		return math.MaxUint64
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return q
}
