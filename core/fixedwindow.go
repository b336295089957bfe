package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// FixedWindowOptions are the options of a [FixedWindow].
type FixedWindowOptions struct {
	Name                string        // for metadata and errors; "": none
	PermitLimit         int           // permits per window; at least 1
	Window              time.Duration // above 0
	Anchor              time.Time     // windows begin at Anchor + k·Window; zero: at the limiter's creation
	QueueLimit          int           // permits that may wait; 0: nobody waits; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // permits come back in TryReplenish only
}

func (o FixedWindowOptions) validate() error {
	f := faults{options: "FixedWindowOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.positive("Window", o.Window)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o FixedWindowOptions) terms() terms {
	return newTerms(o.Name, o.Anchor, machine.Terms{
		Kind: machine.Window, Limit: o.PermitLimit, Step: 1, Span: int64(o.Window),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	})
}

// FixedWindow grants PermitLimit permits in each window of time; at the boundary all of
// them are back. Simple, and exact about quotas of the calendar; across a boundary up to
// twice the limit may pass in less than a window, which a [SlidingWindow] smooths.
//
// Windows lie on the grid Anchor + k·Window. An Anchor by the wall clock, say midnight,
// gives quotas per hour or day; it is looked at once, and from then on time is the
// monotonic clock's, whatever is done to the wall clock.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher]
// and [io.Closer], safe for concurrent use. Make it with [NewFixedWindow]; the zero value refuses with
// [ErrClosed].
type FixedWindow struct{ windowed }

// NewFixedWindow returns a limiter with all permits available, or an error that names every fault of
// the options.
func NewFixedWindow(o FixedWindowOptions) (*FixedWindow, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(FixedWindow)
	l.start(o.terms(), &l.segments)
	return l, nil
}

// Update puts new limits in force. What is taken stays taken: available is the new limit
// less that, until its window ends; if the grid is now another, until the new window does.
// The queue stays. A waiter that now fits is served at once; one that now asks for more than
// the limit gets [ErrPermitsExceedLimit]. Bad options change nothing. After Close it returns
// [ErrClosed].
func (l *FixedWindow) Update(o FixedWindowOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// Options returns the options in force: those of [NewFixedWindow] or of the latest Update.
// An Anchor that was left zero stays zero, and Update with it keeps the grid.
func (l *FixedWindow) Options() FixedWindowOptions {
	t := l.terms()
	return FixedWindowOptions{
		Name: t.name, PermitLimit: t.Limit, Window: time.Duration(t.Span), Anchor: t.anchor,
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// String returns a line for a person: the name, the window, and the statistics.
func (l *FixedWindow) String() string { return l.describeWindow("fixed window") }
