package meter

import (
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/rates"
)

// slice is how many bytes a request asks for at most.
type slice struct {
	size  int  // at least 1
	skip  int  // requests that need not be observed, because the slice is as large as it can be
	rated bool // permits come back with time alone, whatever the leases report

	// The limiters in the end whose permits may be held. The limiter of a key may not exist before the first
	// request, so they are found again with the first lease. None if rated.
	held  []core.Limiter
	known bool // held was found with a lease
}

const (
	// A slice is what comes in this time at the rate that the limiter's leases report. Slices for
	// less would not be smoother: a sleep of a microsecond takes 1.07 ms on Linux.
	sliceTime = 2 * time.Millisecond

	// A slice is at most 1/part of the limit, so that several streams can be served from it at
	// once. While many permits are available, as when a window has just started, it is 1/part of
	// those, if that is more than the rate brings.
	part = 8

	largest = 64 << 10

	// The first slice, before there is a lease: a page.
	first = 4 << 10

	// A slice is at least what one packet carries, or the limit if that is less. Each write to a TLS
	// connection costs a record and a packet: at 50 KiB/s, slices of 100 bytes send twice the payload.
	packet = 1460

	// While slices are as large as they can be, this number is skipped before one is observed.
	skipped = 64
)

func (s *slice) init(l core.Limiter) {
	limit := hold.Limit(l)
	s.rated = hold.ReturnsWithTime(l)
	s.findHeld(l)
	s.size = max(min(ceiling(limit), first), s.least(limit, true))
}

func (s *slice) findHeld(l core.Limiter) {
	s.held = nil
	if s.rated {
		return
	}
	for _, r := range hold.Roots(l) {
		if root := r.(core.Limiter); !hold.ReturnsWithTime(root) {
			s.held = append(s.held, root)
		}
	}
}

// shrink obeys a limit that a request to l has exceeded. The limiter of a key exists by now.
func (s *slice) shrink(l core.Limiter, limit int) {
	s.findHeld(l)
	s.size = min(s.size, max(ceiling(limit), s.least(limit, true)))
}

func ceiling(limit int) int { return min(max(limit/part, 1), largest) }

// least returns the size of the smallest slice. If a request took all permits of a limiter whose permits are held, it
// would wait until no other stream has any, so it takes a part of them.
func (s *slice) least(limit int, rated bool) int {
	if !rated {
		return 1
	}
	smallest := min(limit, packet)
	for _, l := range s.held {
		smallest = min(smallest, ceiling(hold.Limit(l)))
	}
	return smallest
}

// noWait is the wait of a request whose permits were available.
const noWait time.Duration = -1

// observe adapts the slice to the lease of n bytes and to the time that the request has waited.
func (s *slice) observe(l core.Limiter, lease core.Lease, n int, waited time.Duration) {
	o := observation{size: s.size, asked: n, waited: waited, limit: hold.Limit(l)}
	if limit, ok := core.PermitLimit.From(lease); ok && limit > 0 {
		o.limit = min(o.limit, limit)
	}
	o.rated = rated(lease, o.limit)
	if waited == noWait && o.rated > 0 {
		o.left = l.Available()
	}
	if !s.rated && !s.known {
		s.known = true
		s.findHeld(l)
	}
	o.least = s.least(o.limit, o.rated > 0)
	s.size = o.next()
	s.skip = 0
	if waited == noWait && (o.rated == 0 || o.rated >= ceiling(o.limit)) {
		s.skip = skipped // it does not depend on what is available
	}
}

// observation is what a request shows of its limiter.
type observation struct {
	size   int           // of the slice
	asked  int           // bytes that the request was for
	waited time.Duration // or noWait
	limit  int           // math.MaxInt: unknown
	rated  int           // bytes that come in sliceTime at the rate of the lease; 0: it reports none
	left   int           // permits available now, of a request whose permits were available
	least  int           // size of the smallest slice
}

// next returns the size of the next slice: the bytes of sliceTime, or a part of the limit if the rate is
// not known, or half or twice as many as now if neither is. Permits that are available pass faster than
// the rate.
func (o observation) next() int {
	next, wait := o.size, o.waited > noWait
	switch {
	case o.rated == 0 && (!wait || o.limit < math.MaxInt):
		next = largest
	case !wait:
		next = max(o.rated, o.left/part)
	case o.rated > 0 && o.asked/part <= rates.Within(o.rated, sliceTime, o.waited):
		next = o.rated
	// The lease reports no rate, or one that is far too low for this wait: a chain's lease may report
	// the limit of one limiter and the window of another.
	case o.waited > sliceTime:
		next = max(o.size/2, o.rated, min(o.size, packet))
	case o.waited < sliceTime/part && o.asked == o.size:
		next = 2 * o.size
	}
	return max(min(next, ceiling(o.limit)), o.least)
}

// rated returns the bytes of sliceTime at the rate that a lease reports, at least 1, or 0 if it reports none.
func rated(lease core.Lease, limit int) int {
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
	return max(rates.Within(permits, span, sliceTime), 1)
}
