package redislimit

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// SlidingWindowOptions are the terms of a [SlidingWindow]: core's, and where it is.
//
// The Window is in whole microseconds, and SegmentsPerWindow at most those and 2^26; a zero Anchor is the
// Unix epoch, so that the windows of all processes are the same, and an Anchor is rounded up
// to the microsecond. The PermitLimit is at most 2^52. ManualReplenishment is refused.
type SlidingWindowOptions struct {
	core.SlidingWindowOptions

	Shared Shared
}

func (o SlidingWindowOptions) validate(f *faults) {
	_, err := core.NewSlidingWindow(o.SlidingWindowOptions)
	f.core(err)
	f.limit("PermitLimit", o.PermitLimit)
	f.micros("Window", o.Window)
	if o.SegmentsPerWindow > maxSegments || int64(o.SegmentsPerWindow) > int64(o.Window/time.Microsecond) && o.Window > 0 {
		f.add("SegmentsPerWindow", o.SegmentsPerWindow, "at most 2^26, and the window's microseconds")
	}
	f.manual(o.ManualReplenishment)
}

func (o SlidingWindowOptions) terms() *terms {
	span := int64(o.Window / time.Microsecond)
	return terms{
		kind: kindSliding, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder,
		step: int64(o.SegmentsPerWindow), span: span, from: origin(o.Anchor, span),
	}.complete(o.Window)
}

// SlidingWindow is core's sliding window, shared by processes. See [core.SlidingWindow] for what it
// does, and the package's documentation for how. It is a [core.Limiter], [core.Reporter],
// [core.Idler], [core.Refunder], [core.Replenisher] and [io.Closer], safe for concurrent
// use. Make it with [NewSlidingWindow]; the zero value refuses with [core.ErrClosed].
type SlidingWindow struct {
	rate

	options inForce[SlidingWindowOptions]
}

// NewSlidingWindow returns a limiter that shares its Key's state, of which nothing is taken if
// there is none, or what is wrong with the options, all at once. The store is not asked.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	f := faults{options: "SlidingWindowOptions"}
	o.validate(&f)
	f.shared(o.Shared)
	if err := f.err(); err != nil {
		return nil, err
	}
	l := new(SlidingWindow)
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
func (l *SlidingWindow) Update(o SlidingWindowOptions) error {
	f := faults{options: "SlidingWindowOptions"}
	o.validate(&f)
	return update(&l.engine, &f, o.Shared, func() *terms {
		o.Shared = l.shared
		l.options.set(o)
		return o.terms()
	})
}

// Options returns the options in force: those of [NewSlidingWindow] or of the latest Update, with
// Shared's defaults filled in.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	o := l.options.get()
	o.Shared = l.shared
	return o
}

// ReplenishmentPeriod returns the time from one replenishment to the next: the window's, or its segment's, rounded
// down to the nanosecond.
func (l *SlidingWindow) ReplenishmentPeriod() time.Duration {
	t := l.terms()
	return lasts(t.span) / time.Duration(max(t.step, 1))
}

// String returns a line for a person: the name, the window, the key and the statistics. The
// store is not asked.
func (l *SlidingWindow) String() string {
	t := l.terms()
	return l.describe(fmt.Sprintf("sliding window of %v in %d segments", lasts(t.span), t.step))
}
