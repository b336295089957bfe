package meter

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/core"
)

// slice is how many bytes a request asks for at most.
type slice struct {
	size int // at least 1
	skip int // slices that need not be looked at
}

const (
	// A slice is what comes in this time at the rate that the limiter's leases report. Slices for
	// less would not be smoother: a sleep of a microsecond takes 1.07 ms on Linux.
	sliceTime = 2 * time.Millisecond

	// A slice is at most one part in so many of the limit, so that several streams can be served
	// from it at once. While many permits are available, as of a window that has just begun, it
	// is one part in so many of those, if that is more than the rate brings.
	part = 8

	largest = 64 << 10

	// The first slice, before there is a lease: a page.
	first = 4 << 10

	// Waits alone make no slice smaller than this.
	smallest = 256

	// While slices are as large as they can be, only one in so many is looked at.
	skipped = 64
)

func (s *slice) init(limit int) { s.size = min(ceiling(limit), first) }

// shrink obeys a limit that a request has exceeded.
func (s *slice) shrink(limit int) { s.size = min(s.size, ceiling(limit)) }

func ceiling(limit int) int { return min(max(limit/part, 1), largest) }

// follow adapts the slice to the lease of a whole slice that did not have to wait.
func (s *slice) follow(l core.Limiter, lease core.Lease) {
	if s.skip > 0 {
		s.skip--
		return
	}
	limit := limitOf(l, lease)
	most := ceiling(limit)
	rated := ratedSlice(lease, limit)
	if rated == 0 || rated >= most {
		s.size, s.skip = most, skipped
		return
	}
	// What is available passes quickly; a slice that has to wait is no more than the rate brings.
	left := l.Available()
	s.size = min(max(rated, left/part, min(s.size, left)), most)
}

// followWait adapts the slice to the lease of n bytes that the stream has waited for. Where the
// lease reports no rate, or one that is far too low, the time of the wait decides: a chain's
// lease may report the limit of one limiter and the window of another.
func (s *slice) followWait(l core.Limiter, lease core.Lease, n int, waited time.Duration) {
	s.skip = 0
	limit := limitOf(l, lease)
	rated := ratedSlice(lease, limit)
	switch {
	case rated > 0 && n/part <= within(rated, sliceTime, waited):
		s.size = rated
	case rated == 0 && limit < math.MaxInt:
		s.size = largest
	case waited > sliceTime:
		s.size = max(s.size/2, rated, min(s.size, smallest))
	case waited < sliceTime/part && n == s.size:
		s.size *= 2
	}
	s.size = min(s.size, ceiling(limit))
}

// Limit returns the limiter's limit, or math.MaxInt if it does not report one.
func Limit(l core.Limiter) int {
	if r, ok := l.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			return limit
		}
	}
	return math.MaxInt
}

func limitOf(l core.Limiter, lease core.Lease) int {
	limit := Limit(l)
	if told, ok := core.PermitLimit.From(lease); ok && told > 0 {
		limit = min(limit, told)
	}
	return limit
}

// ratedSlice returns the slice for the rate that a lease reports, at least 1, or 0 if it reports
// none.
func ratedSlice(lease core.Lease, limit int) int {
	permits, span := limit, time.Duration(0)
	if window, ok := core.Window.From(lease); ok && window > 0 {
		span = window
	} else if reset, ok := core.ResetAfter.From(lease); ok && reset > 0 {
		// The permits that are missing now are back after that time.
		left, _ := core.Remaining.From(lease)
		permits, span = limit-left, reset
	}
	if span <= 0 || permits <= 0 {
		return 0
	}
	return max(within(permits, span, sliceTime), 1)
}

// within returns how many of the permits that come in a span come in d.
func within(permits int, span, d time.Duration) int {
	hi, lo := bits.Mul64(uint64(permits), uint64(d))
	if hi >= uint64(span) {
		return math.MaxInt
	}
	n, _ := bits.Div64(hi, lo, uint64(span))
	return int(min(n, math.MaxInt))
}
