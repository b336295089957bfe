package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/machine"
)

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
// finds the window that is in force then, and waiters find it within a minute. A limiter in use
// reads the wall clock anew once a millisecond. RetryAfter and ResetAfter are exact to the boundary
// as long as the clock is not set, and the window in the metadata is the length of the one in force.
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

// Update puts new limits in force. Permits that are taken stay taken until their window ends
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

// Options returns the options in force: those of [NewFixedWindow] or of the latest Update. An
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
