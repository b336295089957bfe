package core

import (
	"fmt"
	"time"
)

// SlidingWindowOptions are the terms of a [SlidingWindow].
type SlidingWindowOptions struct {
	Name                string        // for metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	SegmentsPerWindow   int           // steps in which the window slides; from 1 to the window's nanoseconds
	Anchor              time.Time     // segments begin at Anchor + i·Window/SegmentsPerWindow; zero: at the limiter's creation
	QueueLimit          int           // permits that may wait; 0: nobody waits; at least 0
	QueueOrder          QueueOrder    // who is served first
	ManualReplenishment bool          // permits come back in TryReplenish only
}

func (o SlidingWindowOptions) validate() error {
	f := faults{options: "SlidingWindowOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.positive("Window", o.Window)
	switch {
	case o.Window <= 0:
		f.atLeast("SegmentsPerWindow", o.SegmentsPerWindow, 1)
	case o.SegmentsPerWindow < 1 || int64(o.SegmentsPerWindow) > int64(o.Window):
		f.add("SegmentsPerWindow", o.SegmentsPerWindow, fmt.Sprintf("between 1 and %d, the window's nanoseconds", int64(o.Window)))
	}
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o SlidingWindowOptions) terms(base time.Time) terms {
	return terms{
		name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder, manual: o.ManualReplenishment,
		fullBits: windowWord, step: o.SegmentsPerWindow, span: int64(o.Window), from: anchored(o.Anchor, base, int64(o.Window)),
		anchor: anchor(o.Anchor),
	}
}

// SlidingWindow grants PermitLimit permits in any window of time that begins with a
// segment: the window slides by Window/SegmentsPerWindow, and permits taken in a segment
// come back when that segment leaves the window, SegmentsPerWindow segments later. More
// segments make it smoother; memory grows with the segments in which something was taken.
//
// The segments lie on the grid Anchor + i·Window/SegmentsPerWindow, exactly, rounded up to
// the nanosecond. The anchor is looked at once, and from then on time is the monotonic
// clock's.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Replenisher] and [io.Closer], safe
// for concurrent use. Make it with [NewSlidingWindow]; the zero value refuses with
// [ErrClosed].
type SlidingWindow struct{ windowed }

// NewSlidingWindow returns a limiter with all permits available, or what is wrong with
// the options, all at once.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l, base := new(SlidingWindow), time.Now()
	l.start(base, o.terms(base), &l.window)
	return l, nil
}

// Update puts new limits in force. What is taken stays taken: available is the new limit
// less that. It comes back as before if the grid stays; else each segment's permits go to
// the new segment that has its beginning, at the earliest the oldest that counts now. The
// queue stays; who now fits is served at once, who now asks for more than the limit gets
// [ErrPermitsExceedLimit]. Bad options change nothing. After Close it returns [ErrClosed].
func (l *SlidingWindow) Update(o SlidingWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms(l.base))
}

// Options returns the options in force: those of [NewSlidingWindow] or of the latest
// Update. An Anchor that was left zero stays zero, and Update with it keeps the grid.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	t := l.terms()
	return SlidingWindowOptions{
		Name: t.name, PermitLimit: t.limit, Window: time.Duration(t.span), SegmentsPerWindow: t.step, Anchor: t.anchored(),
		QueueLimit: t.queueLimit, QueueOrder: t.order, ManualReplenishment: t.manual,
	}
}

// String returns a line for a person: the name, the window, and the statistics.
func (l *SlidingWindow) String() string { return l.describeWindow("sliding window") }

// windowed is what the two windows share.
type windowed struct {
	rate
	window window
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the window's,
// or its segment's, rounded down to the nanosecond.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.terms()
	return time.Duration(t.span / int64(max(t.step, 1)))
}

func (l *windowed) describeWindow(kind string) string {
	t := l.terms()
	kind += " of " + time.Duration(t.span).String()
	if t.step > 1 {
		kind += fmt.Sprintf(" in %d segments", t.step)
	}
	return l.describe(kind)
}
