package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// SlidingWindowOptions are the options of a [SlidingWindow].
type SlidingWindowOptions struct {
	Name                string        // in metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	SegmentsPerWindow   int           // steps in which the window slides; from 1 to the window's nanoseconds
	Anchor              time.Time     // segments begin at Anchor + i·Window/SegmentsPerWindow; zero: at the limiter's creation
	QueueLimit          int           // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // permits come back only in TryReplenish
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

func (o SlidingWindowOptions) terms() machine.Terms {
	return machine.Terms{
		Kind: machine.Window, Limit: o.PermitLimit, Step: o.SegmentsPerWindow, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// SlidingWindow grants PermitLimit permits in any window of time that begins with a segment.
// The window slides in steps of one segment, which is Window/SegmentsPerWindow long, and the
// permits taken in a segment come back when that segment leaves the window, SegmentsPerWindow
// segments later. More segments make it smoother; memory grows with the number of segments in
// which permits were taken.
//
// Segments begin at exactly Anchor + i·Window/SegmentsPerWindow, rounded up to the nanosecond.
// The anchor is read once; from then on time is that of the monotonic clock.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher] and
// [io.Closer], safe for concurrent use. Make it with [NewSlidingWindow]; requests to the zero
// value fail with [ErrClosed].
type SlidingWindow struct{ windowed }

// NewSlidingWindow returns a limiter with all permits available, or an error that reports all
// invalid options.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(SlidingWindow)
	l.start(newSettings(label{name: o.Name, anchor: o.Anchor}, o.terms()), &l.segments)
	return l, nil
}

// Update puts new limits in force. Permits that are taken stay taken; the new limit less these
// permits is available. They come back as before if the boundaries of segments stay the same;
// otherwise the permits of each segment move to the new segment that contains its beginning, or
// to the oldest one that still counts if that is later. Queued requests stay queued. A waiter
// that now fits is served at once; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. Invalid options change nothing and are reported, and equal options
// change nothing. After Close, Update returns [ErrClosed].
func (l *SlidingWindow) Update(o SlidingWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(label{name: o.Name, anchor: o.Anchor}, o.terms())
}

// Options returns the options in force: those of [NewSlidingWindow] or of the latest Update. An
// Anchor that was not given is zero, and after an Update with a zero Anchor segments still
// count from the limiter's creation.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	t := l.inForce()
	return SlidingWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), SegmentsPerWindow: t.Step, Anchor: t.anchor,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// String returns a human-readable line: the name, the window, and the statistics.
func (l *SlidingWindow) String() string { return l.describeWindow("sliding window") }
