package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// FixedWindowOptions are the options of a [FixedWindow].
type FixedWindowOptions struct {
	Name                string        // in metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	Anchor              time.Time     // windows begin at Anchor + k·Window; zero: at the limiter's creation
	QueueLimit          int           // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // permits come back only in TryReplenish
}

func (o FixedWindowOptions) validate() error {
	f := faults{options: "FixedWindowOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.positive("Window", o.Window)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o FixedWindowOptions) terms() machine.Terms {
	return machine.Terms{
		Kind: machine.Window, Limit: o.PermitLimit, Step: 1, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
}

// FixedWindow grants PermitLimit permits in each window of time; at the end of a window all of
// them come back. It is simple, and exact for quotas per calendar hour or day. Around a
// boundary up to twice the limit may be granted in less than a window; a [SlidingWindow]
// smooths that.
//
// Windows begin at Anchor + k·Window. With an Anchor on the wall clock, such as midnight, they
// are quotas per hour or day. The anchor is read once; from then on time is that of the
// monotonic clock, even if the wall clock is changed.
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
	l.start(newSettings(o.Name, o.Anchor, o.terms()), &l.segments)
	return l, nil
}

// Update puts new limits in force. Permits that are taken stay taken until their window ends
// or, if the new options change the boundaries of windows, until the new window ends; until
// then the new limit less these permits is available. Queued requests stay queued. A waiter
// that now fits is served at once; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. Invalid options change nothing and are reported, and equal options
// change nothing. After Close, Update returns [ErrClosed].
func (l *FixedWindow) Update(o FixedWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.Name, o.Anchor, o.terms())
}

// Options returns the options in force: those of [NewFixedWindow] or of the latest Update. An
// Anchor that was not given is zero, and after an Update with a zero Anchor windows still count
// from the limiter's creation.
func (l *FixedWindow) Options() FixedWindowOptions {
	t := l.inForce()
	return FixedWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), Anchor: t.anchor,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// String returns a human-readable line: the name, the window, and the statistics.
func (l *FixedWindow) String() string { return l.describeWindow("fixed window") }
