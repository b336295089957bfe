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
// window, or of its segment, rounded down to the nanosecond. For a FixedWindow with a [Calendar] it is the length of
// the current window. It returns 0 for the zero value.
func (l *windowed) ReplenishmentPeriod() time.Duration {
	t := l.current()
	if t.Calendar != nil {
		now := l.lockAndServe()
		t = l.settings.Load()
		l.unlockAndWake(now)
	}
	return time.Duration(t.Span / int64(max(t.Step, 1)))
}

func (l *windowed) window(s *settings) int64 { return s.Span }

func (l *windowed) describeWindow(kind string) string {
	t := l.current()
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
	Name                string        // name in metadata and errors; may be empty
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0; 0 with a Calendar
	Anchor              time.Time     // windows start at Anchor + k·Window; zero means the limiter's creation; zero with a Calendar
	Calendar            Calendar      // instead of Window: days, weeks, months or years by the wall clock
	QueueLimit          int           // permits that may wait; 0 means that Acquire does not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // only TryReplenish starts a new window; false with a Calendar
}

func (o FixedWindowOptions) validate() error {
	f := faultsOf("FixedWindowOptions")
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	if o.Calendar == (Calendar{}) {
		f.positive("Window", o.Window)
	} else {
		o.validateCalendar(&f)
	}
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.Err()
}

func (o FixedWindowOptions) validateCalendar(f *faults) {
	if want := calendar.Calendar(o.Calendar).Want(); want != "" {
		f.Add("Calendar", o.Calendar, want)
	}
	if o.Window != 0 {
		f.Add("Window", o.Window, "0 with a Calendar")
	}
	if !o.Anchor.IsZero() {
		f.Add("Anchor", o.Anchor, "the zero time with a Calendar")
	}
	if o.ManualReplenishment {
		f.Add("ManualReplenishment", true, "false with a Calendar")
	}
}

func (o FixedWindowOptions) label() label {
	return label{name: o.Name, anchor: o.Anchor, calendar: o.Calendar}
}

func (o FixedWindowOptions) apply(now Limiter) (Limiter, error) { return apply(now, o, NewFixedWindow) }

func (o FixedWindowOptions) terms() machine.Terms {
	return machine.Terms{
		Limit: o.PermitLimit, Step: 1, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// FixedWindow grants PermitLimit permits in each window of time; at the end of a window all of them
// are returned. It is simple, and exact for quotas per hour, day or month. Around a boundary up to
// twice the limit may be granted in less than a window; a [SlidingWindow] smooths that.
//
// Windows start at Anchor + k·Window. With an Anchor at a full hour and a Window of an hour, the
// windows are the hours of the clock. The anchor is read once. From then on time is monotonic, even
// if the wall clock is set.
//
// With a [Calendar], windows are days, weeks, months or years in a time zone, and the wall clock determines the
// current window; all other limiters use the monotonic clock. The window never moves backward. If the clock is set
// back, even to before the window's start, the window stays current until its end. If the clock is set forward past
// the end, the next call moves on to the window of that time, and waiters notice within a minute. A limiter in use
// rereads the wall clock once a millisecond. [RetryAfter] and [ResetAfter] are exact as long as nobody sets the clock.
// The [Window] in a lease's metadata is the length of the current window.
//
// It implements [Limiter], [Reporter], [Idler], [Resetter], [Replenisher],
// [Reserver], [QuietTrier] and [io.Closer], and is safe for concurrent use. Create it with
// [NewFixedWindow]; requests to the zero value fail with [ErrClosed].
type FixedWindow struct{ windowed }

// NewFixedWindow returns a limiter with all permits available, or an error that lists all invalid
// options.
func NewFixedWindow(o FixedWindowOptions) (*FixedWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(FixedWindow)
	l.start(l, newSettings(o), &l.segments)
	return l, nil
}

// Update applies new limits. Permits that are taken stay taken until their window ends. If the new
// options change the window boundaries, for example to those of a Calendar, they stay taken until
// the new window ends. Until then the new limit minus these permits is available. Queued requests
// stay queued. A waiter that now fits is served immediately; a waiter for more than the new limit
// gets [ErrPermitsExceedLimit]. If options are invalid, Update returns an error that lists all of
// them and changes nothing. Equal options change nothing. After Close, Update returns [ErrClosed].
func (l *FixedWindow) Update(o FixedWindowOptions) error { return l.update(o) }

func (l *FixedWindow) itself() Limiter { return l }

// Options returns the current options: those of [NewFixedWindow] or of the latest Update. If no Anchor was given, it
// is zero. After an Update with a zero Anchor, the windows still count from the limiter's creation.
func (l *FixedWindow) Options() FixedWindowOptions {
	t := l.current()
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
	Name                string        // name in metadata and errors; may be empty
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	SegmentsPerWindow   int           // steps in which the window slides; from 1 to the window's nanoseconds
	Anchor              time.Time     // segments start at Anchor + i·Window/SegmentsPerWindow; zero means the limiter's creation
	QueueLimit          int           // permits that may wait; 0 means that Acquire does not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // permits are returned only in TryReplenish
}

func (o SlidingWindowOptions) validate() error {
	f := faultsOf("SlidingWindowOptions")
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.positive("Window", o.Window)
	switch {
	case o.Window <= 0:
		f.atLeast("SegmentsPerWindow", o.SegmentsPerWindow, 1)
	case o.SegmentsPerWindow < 1 || int64(o.SegmentsPerWindow) > int64(o.Window):
		f.Add("SegmentsPerWindow", o.SegmentsPerWindow, fmt.Sprintf("between 1 and %d, the window's nanoseconds", int64(o.Window)))
	}
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.Err()
}

func (o SlidingWindowOptions) label() label { return label{name: o.Name, anchor: o.Anchor} }

func (o SlidingWindowOptions) apply(now Limiter) (Limiter, error) {
	return apply(now, o, NewSlidingWindow)
}

func (o SlidingWindowOptions) terms() machine.Terms {
	return machine.Terms{
		Limit: o.PermitLimit, Step: o.SegmentsPerWindow, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// SlidingWindow grants PermitLimit permits in any window of time that begins at the start of a segment. The window
// slides in steps of one segment, which is Window/SegmentsPerWindow long. The permits taken in a segment are returned
// when that segment leaves the window, SegmentsPerWindow segments later. More segments make the limit smoother, but
// memory grows with the number of segments in which permits were taken.
//
// Segments start at exactly Anchor + i·Window/SegmentsPerWindow, rounded up to the nanosecond.
// The anchor is read once. From then on time is monotonic.
//
// It implements [Limiter], [Reporter], [Idler], [Resetter], [Replenisher],
// [Reserver], [QuietTrier] and [io.Closer], and is safe for concurrent use. Create it with
// [NewSlidingWindow]; requests to the zero value fail with [ErrClosed].
type SlidingWindow struct{ windowed }

// NewSlidingWindow returns a limiter with all permits available, or an error that lists all invalid
// options.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(SlidingWindow)
	l.start(l, newSettings(o), &l.segments)
	return l, nil
}

// Update applies new limits. Permits that are taken stay taken; the new limit minus these permits is available. They
// are returned as before if the segment boundaries stay the same. Otherwise the permits of each old segment move to
// the new segment that contains its start. If that segment has already left the window, they move to the oldest
// segment in the window. Queued requests stay queued. A waiter that now fits is served immediately; a waiter for more
// than the new limit gets [ErrPermitsExceedLimit]. If options are invalid, Update returns an error that lists all of
// them and changes nothing. Equal options change nothing. After Close, Update returns [ErrClosed].
func (l *SlidingWindow) Update(o SlidingWindowOptions) error { return l.update(o) }

func (l *SlidingWindow) itself() Limiter { return l }

// Options returns the current options: those of [NewSlidingWindow] or of the latest Update. If no Anchor was given, it
// is zero. After an Update with a zero Anchor, the segments still count from the limiter's creation.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	t := l.current()
	return SlidingWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), SegmentsPerWindow: t.Step, Anchor: t.anchor,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// String returns a human-readable line: the name, the window, and the statistics.
func (l *SlidingWindow) String() string { return l.describeWindow("sliding window") }
