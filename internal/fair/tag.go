package fair

import (
	"math"
	"math/bits"
)

// tag is a number of permits per weight, in 1/unit. Sums that exceed 128 bits, which takes two
// million grants of 2^63 permits each while requests wait, stay at the largest tag: then order of
// arrival decides.
type tag struct{ hi, lo uint64 }

// unit is divisible by each power of two that a weight can be, by the weights up to 16 and their
// products with 10 and 100: their tags are exact. Others lose less than 1/unit, about 1e-13, of a
// permit at each grant.
const unit = 1 << 20 * 3 * 3 * 3 * 3 * 5 * 5 * 5 * 7 * 11 * 13

// cost returns n/weight, as a tag. A weight of 0 is 1.
func cost(n, weight int) tag {
	w := uint64(max(weight, 1))
	hi, lo := bits.Mul64(uint64(n), unit)
	t := tag{hi: hi / w}
	t.lo, _ = bits.Div64(hi%w, lo, w)
	return t
}

func (t tag) less(u tag) bool { return t.hi < u.hi || t.hi == u.hi && t.lo < u.lo }

func (t tag) plus(u tag) tag {
	lo, carry := bits.Add64(t.lo, u.lo, 0)
	hi, over := bits.Add64(t.hi, u.hi, carry)
	if over != 0 {
		return tag{math.MaxUint64, math.MaxUint64}
	}
	return tag{hi, lo}
}

func (t tag) minus(u tag) tag {
	lo, borrow := bits.Sub64(t.lo, u.lo, 0)
	hi, _ := bits.Sub64(t.hi, u.hi, borrow)
	return tag{hi, lo}
}
