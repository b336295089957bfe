package ioreader

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/core"
)

// PerSecond returns the options of a token bucket for a bandwidth in bytes per second. The
// bucket holds what the rate brings in 10 ms, and at least one byte: in the first second it
// lets through at most 1 % more than the rate, and in any 10 ms at most twice the rate. Tokens
// come in periods of at most a millisecond, or one by one if that takes longer, at a rate that
// is within a millionth of bytes. The queue has no limit.
//
// Any rate from 1 to math.MaxInt works. If bytes is less than 1, core.NewTokenBucket rejects the
// options.
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
	oneByteRate = second / uint64(time.Millisecond) // below, a byte takes longer than longest
)

// fraction returns tokens per period, in nanoseconds, for a rate in bytes per second: the
// first of the fractions that come ever closer to it (the convergents of its continued
// fraction) to be within a ten-millionth, but none with a period above longest. The next
// would be longer than that, so the error is below 1/(tokens·longest), a millionth.
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

// dividedBy returns the quotient, or the largest number if it is larger.
func (w wide) dividedBy(d uint64) uint64 {
	if w.hi >= d {
		return math.MaxUint64
	}
	q, _ := bits.Div64(w.hi, w.lo, d)
	return q
}
