package core

import (
	"math/bits"
)

// The fields of a lease, whatever its outcome:
//
//	bits   63          10 9   4 3     0
//	         left permits  width outcome
//	reset  the time until all permits are back
//	at     a rate limiter's grant: its instant
//	       a lease that holds permits: its generation
//	       a rejection: the time until the request could be served
//
// The low width bits hold the permits. The remaining bits hold left+1; 0 means that left is unknown. Numbers
// that do not fit are in the lease's extra. The lease of a concurrency limiter has no reset; if its end is watched, the field
// holds the instant of the grant.
//
// newLease packs the fields, and [Lease.info] unpacks them. Settle needs no more of a rate
// limiter's grant than these fields: see [Lease.grant].
const (
	outcomeBits = 4
	widthBits   = 6
	factShift   = outcomeBits + widthBits
	factBits    = 64 - factShift
	usualWidth  = 12 // up to 4,095 permits of up to 4.4e12
)

// unknown is the value of left or reset if it is not known.
const unknown = -1

// leaseInfo is the numbers that a lease says.
type leaseInfo struct {
	permits int   // requested
	limit   int   // at the decision; 0: unknown
	left    int   // available right after the decision, or unknown
	retry   int64 // of a rejection; 0: unknown
	reset   int64 // below 0: unknown
}

// newLease returns the lease of a decision.
func newLease(h *handle, o outcome, permits, left int, reset, at int64) Lease {
	if b, ok := packUsual(permits, left); ok {
		return Lease{h: h, bits: uint64(o) | b, reset: reset, at: at}
	}
	width := uint(bits.Len64(uint64(permits)))
	if uint64(left+1) >= 1<<(factBits-width) { // a negative shift is a large one, and gives 0
		return wideLease(h, o, permits, left, reset, at)
	}
	b := uint64(permits)<<factShift | uint64(left+1)<<((factShift+width)&63)
	return Lease{h: h, bits: uint64(o) | uint64(width)<<outcomeBits | b, reset: reset, at: at}
}

// packUsual returns the bits of a lease but for its outcome, for numbers for which it need not look for the
// width. The functions that decide call it before newLease, because it is inlined (bench: Concurrency, Rate).
func packUsual(permits, left int) (b uint64, ok bool) {
	b = usualWidth<<outcomeBits | uint64(permits)<<factShift | uint64(left+1)<<(factShift+usualWidth)
	return b, uint64(permits)>>usualWidth|uint64(left+1)>>(factBits-usualWidth) == 0
}

// wideLease is newLease for numbers that do not fit.
func wideLease(h *handle, o outcome, permits, left int, reset, at int64) Lease {
	l := Lease{h: h, bits: uint64(o), reset: reset, at: at}
	f := l.info()
	f.permits, f.left = permits, left
	x := extra{base: h, info: &f, missing: f.limit - left}
	if h == nil {
		return l.with(nil, x)
	}
	return l.with(h.settings(), x)
}

func (l Lease) outcome() outcome { return outcome(l.bits & (1<<outcomeBits - 1)) }

// permits returns the permits requested.
func (l Lease) permits() int {
	if l.h != nil && l.h.x != nil {
		return l.info().permits
	}
	return l.packed()
}

// packed returns the permits that are in the lease's bits.
func (l Lease) packed() int { return int(l.bits >> factShift & (1<<(l.width()&63) - 1)) }

func (l Lease) width() uint { return uint(l.bits >> outcomeBits & (1<<widthBits - 1)) }

// info returns what the lease says.
func (l Lease) info() leaseInfo {
	if x := l.extra(); x != nil && x.info != nil {
		return *x.info
	}
	f := leaseInfo{
		permits: l.packed(),
		left:    int(l.bits>>factShift>>(l.width()&63)) - 1,
		reset:   unknown,
	}
	s := l.settings()
	if s == nil {
		return f
	}
	f.limit = s.Limit
	if s.Timed() {
		f.reset = l.reset
		if l.outcome().rejected() {
			f.retry = l.at
		}
	}
	return f
}
