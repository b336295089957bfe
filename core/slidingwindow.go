package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// SlidingWindowOptions are the options of a [SlidingWindow].
type SlidingWindowOptions struct {
	Name                string        // for metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	SegmentsPerWindow   int           // steps in which the window slides; from 1 to the window's nanoseconds
	Anchor              time.Time     // segments begin at Anchor + i·Window/SegmentsPerWindow; zero: at the limiter's creation
	QueueLimit          int           // permits that may wait; 0: nobody waits; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
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

func (o SlidingWindowOptions) terms() terms {
	return newTerms(o.Name, o.Anchor, machine.Terms{
		Kind: machine.Window, Limit: o.PermitLimit, Step: o.SegmentsPerWindow, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	})
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
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher]
// and [io.Closer], safe for concurrent use. Make it with [NewSlidingWindow]; the zero value refuses with
// [ErrClosed].
type SlidingWindow struct{ windowed }

// NewSlidingWindow returns a limiter with all permits available, or what is wrong with
// the options, all at once.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(SlidingWindow)
	l.start(o.terms(), &l.segments)
	return l, nil
}

// Update puts new limits in force. What is taken stays taken: available is the new limit
// less that. It comes back as before if the grid stays; else each segment's permits go to
// the new segment that has its beginning, at the earliest the oldest that counts now. The
// queue stays. A waiter that now fits is served at once; one that now asks for more than the
// limit gets [ErrPermitsExceedLimit]. Bad options change nothing. After Close it returns
// [ErrClosed].
func (l *SlidingWindow) Update(o SlidingWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// Options returns the options in force: those of [NewSlidingWindow] or of the latest
// Update. An Anchor that was left zero stays zero, and Update with it keeps the grid.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	t := l.terms()
	return SlidingWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), SegmentsPerWindow: t.Step, Anchor: t.anchor,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// String returns a line for a person: the name, the window, and the statistics.
func (l *SlidingWindow) String() string { return l.describeWindow("sliding window") }
