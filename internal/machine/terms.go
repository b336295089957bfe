package machine

import (
	"math"
	"math/bits"
)

// Mode is a set of options. The zero Mode serves the oldest first, and permits come back by themselves, with time.
type Mode uint8

// The modes.
const (
	NewestFirst Mode = 1 << iota // the queue serves the newest first, and evicts the oldest
	Manual                       // permits come back only in Replenish
	FairShare                    // the queue serves by priority and flow: see package fair
	Held                         // permits come back when they are released, as a concurrency limiter's
)

// Terms are a limiter's options. They do not change; Update replaces them. The machine does not
// check them.
type Terms struct {
	Limit      int   // permits; at least 1
	QueueLimit int   // permits that may wait; at least 0
	Step       int   // a bucket's tokens per period, at most Limit; a window's segments; if permits are held, the ceiling of Limit
	Span       int64 // a bucket's period; a window's length
	From       int64 // a window's origin, above -Span and at most 0 without a Calendar

	// The calendar of a fixed window whose boundaries are a calendar's, or nil. From and Span are then
	// those of the current window: see Enter.
	Calendar *Calendar

	Mode  Mode
	Epoch uint32 // a grant of another epoch returns nothing; an Update (NextEpoch) or a Reset may start one
}

// Most returns the largest number of permits that a request may ask for: the limit, or the ceiling of a limit on
// permits that are held, if that is higher.
func (t *Terms) Most() int {
	if t.Held() {
		return max(t.Step, t.Limit)
	}
	return t.Limit
}

// NewestFirst reports whether the queue serves the newest first.
func (t *Terms) NewestFirst() bool { return t.Mode&NewestFirst != 0 }

// FairShare reports whether the queue serves by priority and flow.
func (t *Terms) FairShare() bool { return t.Mode&FairShare != 0 }

// Manual reports whether permits come back only in Replenish.
func (t *Terms) Manual() bool { return t.Mode&Manual != 0 }

// Timed reports whether permits come back by themselves, with time.
func (t *Terms) Timed() bool { return t.Mode&(Held|Manual) == 0 }

// Held reports whether permits come back when they are released.
func (t *Terms) Held() bool { return t.Mode&Held != 0 }

// Never is an instant that does not come: later than 292 years after the limiter's
// creation.
const Never = math.MaxInt64

// after returns t + d, or Never; d is at least 0.
func after(t, d int64) int64 {
	if s := t + d; s >= t {
		return s
	}
	return Never
}

// ticks returns the number of ticks that bring at least n tokens.
func (t *Terms) ticks(n uint64) int64 {
	if t.Step == 1 {
		return int64(n) // saves a division
	}
	return int64((n + uint64(t.Step) - 1) / uint64(t.Step))
}

// later returns how long k periods are, or Never.
func (t *Terms) later(k int64) int64 {
	hi, lo := bits.Mul64(uint64(k), uint64(t.Span))
	if hi != 0 || lo > Never {
		return Never
	}
	return int64(lo)
}

// FillTime returns the time in which a bucket fills from empty, or Never.
func (t *Terms) FillTime() int64 { return t.later(t.ticks(uint64(t.Limit))) }

// segment returns the segment of a window's grid that contains an instant. Instant 0 is in
// segment 0, because segments counted from From could exceed an int64.
func (t *Terms) segment(at int64) int64 {
	if t.Calendar != nil {
		return t.Calendar.segment(t, at)
	}
	return int64(t.fromOrigin(at) - t.fromOrigin(0))
}

// fromOrigin returns how many segments have ended from From until an instant.
func (t *Terms) fromOrigin(at int64) uint64 {
	x := uint64(at - t.From)
	if x == 0 {
		return 0
	}
	// floor(x·step/span) is below 2^64, as step is at most span.
	hi, lo := bits.Mul64(x, uint64(t.Step))
	i, _ := bits.Div64(hi, lo, uint64(t.Span))
	return i
}

// startOf returns the instant at which a segment starts, or Never.
func (t *Terms) startOf(segment int64) int64 { return t.startAfter(segment, 0) }

// End returns the instant at which the current window of the calendar ends.
func (t *Terms) End() int64 { return t.From + t.Span }

// back returns the instant at which permits taken in a segment come back, or Never.
func (t *Terms) back(segment int64) int64 { return t.startAfter(segment, uint64(t.Step)) }

// startAfter returns the instant at which the n-th segment after one starts, or Never.
func (t *Terms) startAfter(segment int64, n uint64) int64 {
	if t.Calendar != nil {
		return t.Calendar.after(t, segment, n)
	}
	i, over := bits.Add64(uint64(segment)+t.fromOrigin(0), n, 0)
	if over != 0 && segment >= 0 { // one of a time before the limiter's creation is below 0
		return Never
	}
	hi, lo := bits.Mul64(i, uint64(t.Span))
	lo, carry := bits.Add64(lo, uint64(t.Step)-1, 0)
	if hi += carry; hi >= uint64(t.Step) {
		return Never
	}
	x, _ := bits.Div64(hi, lo, uint64(t.Step))
	if x > Never+uint64(-t.From) { // From is not above 0
		return Never
	}
	return int64(x + uint64(t.From)) // below 0 for the segment in which the limiter was made
}

// SameGrid reports whether a window's permits come back at the same instants under t and u.
func (t *Terms) SameGrid(u *Terms) bool {
	return t.Span == u.Span && t.Step == u.Step && t.From == u.From && t.Calendar.same(u.Calendar)
}
