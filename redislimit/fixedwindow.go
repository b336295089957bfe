package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// FixedWindowOptions are the terms of a [FixedWindow]: core's, and where it is.
//
// The Window is in whole microseconds; a zero Anchor is the
// Unix epoch, so that the windows of all processes are the same, and an Anchor is rounded up
// to the microsecond. The PermitLimit is at most 2^52. ManualReplenishment is refused.
type FixedWindowOptions struct {
	core.FixedWindowOptions

	Shared Shared
}

func (o FixedWindowOptions) validate(f *faults) {
	_, err := core.NewFixedWindow(o.FixedWindowOptions)
	f.core(err)
	f.limit("PermitLimit", o.PermitLimit)
	f.micros("Window", o.Window)
	f.manual(o.ManualReplenishment)
}

func (o FixedWindowOptions) terms() *terms {
	span := int64(o.Window / time.Microsecond)
	return terms{
		kind: kindFixed, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder,
		step: 1, span: span, from: origin(o.Anchor, span),
	}.complete(o.Window)
}

// FixedWindow is core's fixed window, shared by processes. See [core.FixedWindow] for what it
// does, and the package's documentation for how. It is a [core.Limiter], [core.Reporter],
// [core.Idler], [core.Refunder], [core.Replenisher] and [io.Closer], safe for concurrent
// use. Make it with [NewFixedWindow]; the zero value refuses with [core.ErrClosed].
type FixedWindow struct {
	rate

	options inForce[FixedWindowOptions]
}

// NewFixedWindow returns a limiter that shares its Key's state, of which nothing is taken if
// there is none, or what is wrong with the options, all at once. The store is not asked.
func NewFixedWindow(o FixedWindowOptions) (*FixedWindow, error) {
	f := faults{options: "FixedWindowOptions"}
	o.validate(&f)
	f.shared(o.Shared)
	if err := f.err(); err != nil {
		return nil, err
	}
	l := new(FixedWindow)
	l.options.set(o)
	l.start(o.Shared, o.terms())
	return l, nil
}

// Update puts new limits in force, in this process. What is taken stays taken: available is
// the new limit less that. If the grid is another, each segment's permits go to the new
// segment that has its beginning, at the earliest the oldest that counts now. The queue stays; who now
// fits is served at once, who now asks for more than the limit gets
// [core.ErrPermitsExceedLimit]. Shared must be zero or what it was. Bad options change
// nothing. After Close it returns [core.ErrClosed].
func (l *FixedWindow) Update(o FixedWindowOptions) error {
	f := faults{options: "FixedWindowOptions"}
	o.validate(&f)
	return update(&l.engine, &f, o.Shared, func() *terms {
		o.Shared = l.shared
		l.options.set(o)
		return o.terms()
	})
}

// Options returns the options in force: those of [NewFixedWindow] or of the latest Update, with
// Shared's defaults filled in.
func (l *FixedWindow) Options() FixedWindowOptions {
	o := l.options.get()
	o.Shared = l.shared
	return o
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the window's length.
func (l *FixedWindow) ReplenishmentPeriod() time.Duration {
	t := l.terms()
	return lasts(t.span)
}

// String returns a line for a person: the name, the window, the key and the statistics. The
// store is not asked.
func (l *FixedWindow) String() string {
	t := l.terms()
	return l.describe("fixed window of " + lasts(t.span).String())
}
