package meter

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/rates"
)

// slice is how many bytes a request asks for at most. [observation.next] has the rules.
type slice struct {
	size int            // at least 1
	skip int            // requests that need not be observed, because the slice is as large as it can be
	held []core.Limiter // the limiters in the end whose permits may be held
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

// init starts with a slice that suits a rate limiter, until there is a lease.
func (s *slice) init(l core.Limiter) {
	*s = slice{held: slices.DeleteFunc(ways.Roots(l, false), ways.ReturnsWithTime)}
	s.size = bounded(first, hold.Limit(l), true, s.mostHeld())
}

// shrink obeys a limit that a request has exceeded.
func (s *slice) shrink(limit int) {
	s.size = min(s.size, bounded(s.size, limit, true, s.mostHeld()))
}

// mostHeld returns the number of permits of which no slice takes more, because others may hold the rest: a request for
// all of them would wait until no other stream has any.
func (s *slice) mostHeld() int {
	most := largest
	for _, l := range s.held {
		most = min(most, ceiling(hold.Limit(l)))
	}
	return most
}

// noWait is the wait of a request whose permits were available.
const noWait time.Duration = -1

// observe adapts the slice to the lease of n bytes and to the time that the request has waited.
func (s *slice) observe(l core.Limiter, lease core.Lease, n int, waited time.Duration) {
	o := observation{size: s.size, asked: n, waited: waited, limit: hold.Limit(l), held: s.mostHeld()}
	if limit, ok := core.PermitLimit.From(lease); ok && limit > 0 {
		o.limit = min(o.limit, limit)
	}
	o.brings = bytesIn(sliceTime, lease, o.limit)
	if waited == noWait && o.brings > 0 {
		o.left = l.Available()
	}
	s.size = o.next()
	s.skip = 0
	if waited == noWait && (o.brings == 0 || o.brings >= ceiling(o.limit)) {
		s.skip = skipped // it does not depend on what is available
	}
}

// observation is what a request shows of its limiter.
type observation struct {
	size   int           // size of the slice
	asked  int           // bytes that the request was for
	waited time.Duration // or noWait
	limit  int           // math.MaxInt: unknown
	brings int           // bytes that come in sliceTime at the rate of the lease; 0: it reports none
	left   int           // permits available now, of a request whose permits were available
	held   int           // what mostHeld returns
}

// next returns the size of the next slice, by the four rules that the documentation of ioreader has:
//
//  1. A slice is what the rate allows in 2 ms, or an eighth of the available permits if that is more.
//  2. It is at most 64 KiB, and at most an eighth of the limit.
//  3. Under a rate limiter it is at least 1,460 bytes, or the limit if that is less.
//  4. If permits may be held, it is never more than an eighth of the limit.
func (o observation) next() int { return bounded(o.wanted(), o.limit, o.brings > 0, o.held) }

// wanted is the first rule. If the lease reports no rate, a slice is as large as the other rules allow, or adapts to
// the wait if the limit is not known either.
func (o observation) wanted() int {
	wait := o.waited > noWait
	switch {
	case o.brings == 0 && (!wait || o.limit < math.MaxInt):
		return largest
	case !wait:
		return max(o.brings, o.left/part)
	case o.brings > 0 && o.asked/part <= rates.Within(o.brings, sliceTime, o.waited):
		return o.brings
	// The lease reports no rate, or one that is far too low for this wait: a chain's lease may report
	// the limit of one limiter and the window of another.
	case o.waited > sliceTime:
		return max(o.size/2, o.brings, min(o.size, packet))
	case o.waited < sliceTime/part && o.asked == o.size:
		return 2 * o.size
	}
	return o.size
}

// bounded applies the other rules to a size. rated says that the limiter reports a rate.
func bounded(size, limit int, rated bool, held int) int {
	size = min(size, ceiling(limit))
	if rated {
		size = max(size, min(limit, packet))
	}
	return min(size, held)
}

func ceiling(limit int) int { return min(max(limit/part, 1), largest) }

// bytesIn returns the bytes that come in d at the rate that a lease reports, at least 1, or 0 if it reports none.
func bytesIn(d time.Duration, lease core.Lease, limit int) int {
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
	return max(rates.Within(permits, span, d), 1)
}
