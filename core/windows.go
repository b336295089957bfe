package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/machine"
)

// windowed is what the two windows share.
type windowed struct {
	rate
	segments machine.Segments
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the length of the
// window, or of its segment, rounded down to the nanosecond.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.inForce()
	if t.Calendar != nil {
		now := l.lock()
		t = l.settings.Load()
		l.unlock(now)
	}
	return time.Duration(t.Span / int64(max(t.Step, 1)))
}

func (l *windowed) describeWindow(kind string) string {
	t := l.inForce()
	if t.Calendar != nil {
		return l.describe(kind + " of a " + t.calendar.String())
	}
	kind += " of " + time.Duration(t.Span).String()
	if t.Step > 1 {
		kind += fmt.Sprintf(" in %d segments", t.Step)
	}
	return l.describe(kind)
}

// FixedWindowOptions are the options of a [FixedWindow].
type FixedWindowOptions struct {
	Name                string        // in metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0; 0 with a Calendar
	Anchor              time.Time     // windows begin at Anchor + k·Window; zero: at the limiter's creation
	Calendar            Calendar      // windows of days, weeks, months or years instead, by the wall clock; zero: none
	QueueLimit          int           // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // permits come back only in TryReplenish
}

func (o FixedWindowOptions) validate() error {
	f := faults{options: "FixedWindowOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	if o.Calendar == (Calendar{}) {
		f.positive("Window", o.Window)
	} else {
		o.validateCalendar(&f)
	}
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o FixedWindowOptions) validateCalendar(f *faults) {
	if want := calendar.Calendar(o.Calendar).Want(); want != "" {
		f.add("Calendar", o.Calendar, want)
	}
	if o.Window != 0 {
		f.add("Window", o.Window, "0 with a Calendar")
	}
	if !o.Anchor.IsZero() {
		f.add("Anchor", o.Anchor, "the zero time with a Calendar")
	}
	if o.ManualReplenishment {
		f.add("ManualReplenishment", true, "false with a Calendar")
	}
}

func (o FixedWindowOptions) label() label {
	return label{name: o.Name, anchor: o.Anchor, calendar: o.Calendar}
}

func (o FixedWindowOptions) terms() machine.Terms {
	return machine.Terms{
		Kind: machine.Window, Limit: o.PermitLimit, Step: 1, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// FixedWindow grants PermitLimit permits in each window of time; at the end of a window all of
// them come back. It is simple, and exact for quotas per hour, day or month. Around a
// boundary up to twice the limit may be granted in less than a window; a [SlidingWindow]
// smooths that.
//
// Windows begin at Anchor + k·Window. With an Anchor on the wall clock, such as a full hour, they
// are quotas per hour. The anchor is read once; from then on time is that of the monotonic clock,
// even if the wall clock is changed.
//
// With a [Calendar] the windows are the days, weeks, months or years of a time zone, and the wall
// clock decides which window it is: it is the only limiter whose time is not monotonic. A window
// never goes back. If the clock is set back, even before the window's beginning, the window in
// force stays until its own end is reached. If the clock is set forward beyond the end, the next use
// finds the window of that time, and waiters find it within a minute. A limiter in use
// reads the wall clock anew once a millisecond. RetryAfter and ResetAfter are exact to the boundary
// as long as the clock is not set, and the window in the metadata is the length of the current one.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher] and
// [io.Closer], safe for concurrent use. Make it with [NewFixedWindow]; requests to the zero
// value fail with [ErrClosed].
type FixedWindow struct{ windowed }

// NewFixedWindow returns a limiter with all permits available, or an error that reports all
// invalid options.
func NewFixedWindow(o FixedWindowOptions) (*FixedWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(FixedWindow)
	l.start(newSettings(o.label(), o.terms()), &l.segments)
	return l, nil
}

// Update applies new limits. Permits that are taken stay taken until their window ends
// or, if the new options change the boundaries of windows, such as to those of a Calendar, until
// the new window ends; until then the new limit less these permits is available. Queued requests
// stay queued. A waiter that now fits is served at once; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. Invalid options change nothing and are reported, and equal options
// change nothing. After Close, Update returns [ErrClosed].
func (l *FixedWindow) Update(o FixedWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.label(), o.terms())
}

// Options returns the current options: those of [NewFixedWindow] or of the latest Update. An
// Anchor that was not given is zero, and after an Update with a zero Anchor windows still count
// from the limiter's creation.
func (l *FixedWindow) Options() FixedWindowOptions {
	t := l.inForce()
	o := FixedWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), Anchor: t.anchor, Calendar: t.calendar,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
	if t.Calendar != nil {
		o.Window = 0
	}
	return o
}

// String returns a human-readable line: the name, the window, and the statistics.
func (l *FixedWindow) String() string { return l.describeWindow("fixed window") }

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

// Update applies new limits. Permits that are taken stay taken; the new limit less these
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

// Options returns the current options: those of [NewSlidingWindow] or of the latest Update. An
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
