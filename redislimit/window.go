package redislimit

import (
	"time"

	"github.com/sluice-go/sluice/core"
)

// FixedWindowOptions are the options of a [FixedWindow].
//
// The Window is in whole microseconds. An Anchor is rounded up to the microsecond; a zero Anchor means
// the Unix epoch, so that all processes have the same windows. The PermitLimit is at most 2^52.
// ManualReplenishment is not supported.
//
// With a Calendar, the server's clock decides which window is current, so processes with wrong clocks
// share one quota. They need the same time zone data. If the server's clock goes back, a window in
// which permits are taken stays current. A process remembers a rejection for at most a minute. Update
// may add, change or remove the Calendar.
type FixedWindowOptions struct {
	core.FixedWindowOptions

	Shared StoreOptions
}

func (o *FixedWindowOptions) shared() *StoreOptions { return &o.Shared }

// limits are those of a sliding window with one segment.
func (o *FixedWindowOptions) limits(f *faults) *limits {
	_, err := core.NewFixedWindow(o.FixedWindowOptions)
	f.core(err, "PermitLimit", o.PermitLimit, o.QueueOrder, o.ManualReplenishment)
	f.micros("Window", o.Window)
	if f.found() {
		return nil
	}
	l := limits{kind: kindFixed, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	if o.Calendar != (core.Calendar{}) {
		l.byCalendar(o.Calendar)
	} else {
		l.step, l.span = 1, int64(o.Window/time.Microsecond)
		l.origin = origin(o.Anchor, l.span)
	}
	return l.describe(o.Window)
}

// FixedWindow is a [core.FixedWindow] that processes share; the package documentation says how.
// It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder],
// [core.Resetter], [core.Replenisher] and [io.Closer], and safe for concurrent use. Make it with
// [NewFixedWindow]; the zero value fails with [core.ErrClosed].
type FixedWindow struct{ rateLimiter }

// NewFixedWindow returns a limiter that shares the window of its Key, or an error that reports all
// invalid options. It does not ask the store.
func NewFixedWindow(o FixedWindowOptions) (*FixedWindow, error) {
	return made(new(FixedWindow), &o)
}

// Options returns the current options: those of the constructor or of the latest Update, with the defaults of Shared.
func (l *FixedWindow) Options() FixedWindowOptions {
	return *optionsOf(&l.engine, new(FixedWindowOptions))
}

// Update applies new options in this process; [core.FixedWindow.Update] says what happens to waiters. Shared must be
// zero or unchanged. If the options are bad, nothing changes. After Close, Update returns [core.ErrClosed].
//
// Permits that are taken stay taken until the window ends in which they were taken. Other processes continue with their own
// options. While the options differ, permits come back as the process says that took them.
func (l *FixedWindow) Update(o FixedWindowOptions) error { return l.update(&o) }

// SlidingWindowOptions are the options of a [SlidingWindow].
//
// The Window is in whole microseconds. SegmentsPerWindow is at most the window's microseconds, and at
// most 2^26. A decision costs the server about the same with any number of segments; its memory grows
// with the segments in which permits are taken. An Anchor is rounded up to the microsecond; a zero
// Anchor means the Unix epoch, so that all processes have the same segments. The PermitLimit is at
// most 2^52. ManualReplenishment is not supported.
type SlidingWindowOptions struct {
	core.SlidingWindowOptions

	Shared StoreOptions
}

func (o *SlidingWindowOptions) shared() *StoreOptions { return &o.Shared }

func (o *SlidingWindowOptions) limits(f *faults) *limits {
	_, err := core.NewSlidingWindow(o.SlidingWindowOptions)
	f.core(err, "PermitLimit", o.PermitLimit, o.QueueOrder, o.ManualReplenishment)
	f.micros("Window", o.Window)
	if o.SegmentsPerWindow > maxSegments || int64(o.SegmentsPerWindow) > int64(o.Window/time.Microsecond) && o.Window > 0 {
		f.add("SegmentsPerWindow", o.SegmentsPerWindow, "at most 2^26, and the window's microseconds")
	}
	if f.found() {
		return nil
	}
	span := int64(o.Window / time.Microsecond)
	return limits{
		kind: kindSliding, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder,
		step: int64(o.SegmentsPerWindow), span: span, origin: origin(o.Anchor, span),
	}.describe(o.Window)
}

// SlidingWindow is a [core.SlidingWindow] that processes share; the package documentation says
// how. It is a [core.Limiter], [core.Reporter], [core.Idler], [core.Settler], [core.Refunder],
// [core.Resetter], [core.Replenisher] and [io.Closer], and safe for concurrent use. Make it with
// [NewSlidingWindow]; the zero value fails with [core.ErrClosed].
type SlidingWindow struct{ rateLimiter }

// NewSlidingWindow returns a limiter that shares the window of its Key, or an error that reports all
// invalid options. It does not ask the store.
func NewSlidingWindow(o SlidingWindowOptions) (*SlidingWindow, error) {
	return made(new(SlidingWindow), &o)
}

// Options returns the current options: those of the constructor or of the latest Update, with the defaults of Shared.
func (l *SlidingWindow) Options() SlidingWindowOptions {
	return *optionsOf(&l.engine, new(SlidingWindowOptions))
}

// Update applies new options in this process; [core.SlidingWindow.Update] says what happens to waiters. Shared must be
// zero or unchanged. If the options are bad, nothing changes. After Close, Update returns [core.ErrClosed].
//
// Permits that are taken stay taken until they come back by the options under which they were taken. Other processes continue
// with their own options. While the options differ, permits come back as the process says that took them.
func (l *SlidingWindow) Update(o SlidingWindowOptions) error { return l.update(&o) }
