package core

import "math/bits"

// Lease is a limiter's decision: the permits that it granted, or the reason why it did not.
//
// A Lease is a small value. It may be copied, stored, sent over channels and released from any
// goroutine; all copies are the same lease. The zero Lease is not acquired.
type Lease struct {
	// Four words, no more: the compiler keeps such a struct in registers. See below what is where.
	h         *handle // nil if the lease is not from a limiter of this package and has nothing extra
	bits      uint64
	reset, at int64
}

// outcome is how a request was decided.
type outcome uint8

const (
	unanswered outcome = iota // not acquired: the zero lease, and Reject's
	granted                   // acquired, with nothing to release
	reduced                   // granted, and part of it was returned before
	reserved                  // of Reserve: granted, or promised for later
	held                      // acquired from a concurrency limiter, a chain, or with Grant
	exhausted                 // rejected
	queueFull                 // rejected
	evicted                   // rejected
	tooSoon                   // rejected
	barred                    // rejected: by Blocked
	paused                    // rejected: by Paused
	closed                    // ErrClosed
	exceeds                   // ExceedsLimitError
	negative                  // ErrNegativePermits
	failed                    // extra.err
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
// The low width bits hold the permits. The remaining bits hold left+1; 0 means that left is unknown. Numbers that do not fit
// are in the lease's extra. The lease of a concurrency limiter has no reset; if its end is watched, the field holds the time
// of the grant.
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

func (l Lease) outcome() outcome { return outcome(l.bits & (1<<outcomeBits - 1)) }

// packed returns the permits that are in the lease's bits.
func (l Lease) packed() int { return int(l.bits >> factShift & (1<<(l.width()&63) - 1)) }

func (l Lease) width() uint { return uint(l.bits >> outcomeBits & (1<<widthBits - 1)) }

var reasonPhrases = [...]string{
	exhausted: ReasonExhausted,
	queueFull: ReasonQueueLimit,
	evicted:   ReasonEvicted,
	tooSoon:   ReasonDeadlineTooSoon,
	barred:    "blocked",
	paused:    "paused",
}

func (o outcome) acquired() bool { return o-granted <= held-granted }

func (o outcome) rejected() bool { return o-exhausted <= paused-exhausted }

// phrase returns the reason phrase of a rejection; "" if there is none.
func (o outcome) phrase() string {
	if !o.rejected() {
		return ""
	}
	return reasonPhrases[o]
}
