package telemetry

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Instrument returns a view of l that reports the requests that go through it:
//
//   - sluice.limiter.queue.duration: how long each Acquire took that was not granted immediately, even if
//     the queue then had no room. Its sluice.result is granted or rejected, and if the order of l is
//     [core.FairShare], its sluice.priority is that of the [core.Flow] in the context. An Acquire that
//     fails for any other reason, for example because its context ends, counts as rejected. If l is not
//     a [core.QuietTrier], as a limiter of your own may not be, each Acquire that takes 10 µs or more counts.
//   - sluice.limiter.lease.duration: how long a lease was held, from its grant to its first
//     Release or Refund. Leases of zero permits are included. Its sluice.result is granted, or
//     shadowed for a lease that [core.Shadow] granted although its limiter did not.
//   - sluice.limiter.permits.settled: the number of permits by which Settle and Refund have changed the
//     cost of leases. Its sluice.direction is up for additional permits, and down for refunded ones.
//
// If [core.As] finds a [core.Reporter] in l, Instrument observes it too, as [Observe] does, so do not use
// both for l. Requests to l itself are counted but not timed.
//
// The leases have l's metadata, and l settles and refunds them. After Release, Refund and Settle do nothing.
// A grant and its release allocate nothing, unless l is not from package core and sets its own metadata.
//
// The view is a [core.QuietTrier], [core.Reporter], [core.Idler] and [io.Closer], even if l is not: then
// IdleFor reports that it is never idle, and Close does nothing. The view has a method Unwrap() core.Limiter
// that returns l, through which [core.As] finds other interfaces, such as [core.Replenisher].
//
// The view is safe for concurrent use if l is. If l panics, so does the view, and no permits stay held.
// stop ends the metrics; the view continues to work.
func Instrument(o Options, name string, l core.Limiter) (i core.Limiter, stop func() error, err error) {
	if backdoor.IsNil(l) {
		return nil, nil, fmt.Errorf("telemetry: Instrument of limiter %q, which is nil", name)
	}
	v := &instrumented{l: l, options: o, limiter: limiterName.String(name), base: time.Now()}
	v.joiner = ways.NewJoiner(partsOfLease, v.settle)
	if err := v.makeInstruments(); err != nil {
		return nil, nil, err
	}
	if _, quiet := l.(core.QuietTrier); !quiet {
		v.atOnce = atOnce
	}
	unobserve := func() error { return nil }
	if r, ok := core.As[core.Reporter](l); ok {
		if unobserve, err = Observe(o, name, r); err != nil {
			return nil, nil, err
		}
	}
	return v, func() error {
		v.stopped.Store(true)
		return unobserve()
	}, nil
}

var ways = backdoor.Core[core.Limiter, core.Lease]()

// instrumented is a limiter with instruments.
//
// Each of its leases joins two parts: l's own lease, and a span, which ends with it. The last part
// is released first, so the time is recorded before the permits are granted again.
type instrumented struct {
	l       core.Limiter
	options Options
	limiter attribute.KeyValue // the name of l

	joiner backdoor.Joiner[core.Lease]
	spans  sync.Pool     // pool of *span that no lease uses
	base   time.Time     // what times are measured from
	atOnce time.Duration // an Acquire that was not granted quietly and takes less has not waited

	stopped                     atomic.Bool
	queue, lease                metric.Float64Histogram
	settled                     metric.Int64Counter
	granted, rejected, shadowed []metric.RecordOption // slices, because a call of Record with an option makes one
	up, down                    metric.MeasurementOption
}

const (
	partOfLimiter, partOfSpan, partsOfLease = 0, 1, 2

	// An Acquire of a limiter without a quiet try has not waited if it takes less: a rejection takes less
	// than a microsecond; to sleep and be woken takes several.
	atOnce = 10 * time.Microsecond
)

func (i *instrumented) makeInstruments() error {
	m := i.options.instruments()
	i.queue, i.lease, i.settled = m.durations(metrics.InQueue), m.durations(metrics.Held), m.counter(metrics.Settled)
	i.granted = []metric.RecordOption{i.with(result.String("granted"))}
	i.rejected = []metric.RecordOption{i.with(result.String("rejected"))}
	i.shadowed = []metric.RecordOption{i.with(result.String("shadowed"))}
	i.up, i.down = i.with(direction.String("up")), i.with(direction.String("down"))
	return m.err
}

// with returns the attributes of a measurement of l.
func (i *instrumented) with(own ...attribute.KeyValue) metric.MeasurementOption {
	return i.options.with(append(own, i.limiter)...)
}

// Unwrap returns the limiter that this is a view of.
func (i *instrumented) Unwrap() core.Limiter { return i.l }

func (i *instrumented) Available() int { return i.l.Available() }

func (i *instrumented) TryAcquire(permits int) core.Lease {
	lease := i.l.TryAcquire(permits)
	if !lease.Acquired() {
		return lease
	}
	return i.timed(lease, i.now())
}

// Reserve is l's, if l is a [core.Reserver]. The time of the lease counts from here.
func (i *instrumented) Reserve(permits int) core.Lease {
	lease := ways.Reserve(i.l, permits)
	if !lease.Acquired() {
		return lease
	}
	return i.timed(lease, i.now())
}

func (i *instrumented) TryQuietly(permits int) (core.Lease, bool) {
	lease, ok := core.TryQuietly(i.l, permits)
	if !ok {
		return core.Lease{}, false
	}
	return i.timed(lease, i.now()), true
}

func (i *instrumented) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return i.acquire(ctx, permits, backdoor.Bounded)
}

// AcquireWaiting makes the view a [backdoor.Waiter].
func (i *instrumented) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return i.acquire(ctx, permits, backdoor.Beyond)
}

func (i *instrumented) acquire(ctx context.Context, permits int, q backdoor.Queueing) (lease core.Lease, err error) {
	mayWait := ctx.Err() == nil
	if mayWait {
		if lease, ok := i.TryQuietly(permits); ok {
			return lease, nil
		}
	}
	start := i.now()
	lease, _, err = ways.Acquire(ctx, i.l, permits, nil, q)
	end := i.now()
	_, shadowed := core.Shadowed.From(lease) // it never waits
	if took := end - start; mayWait && took >= i.atOnce && !shadowed && !i.stopped.Load() {
		i.queue.Record(ctx, took.Seconds(), i.waited(ctx, err == nil)...)
	}
	if err != nil {
		return lease, err
	}
	return i.timed(lease, end), nil
}

// waited returns the attributes of a wait.
func (i *instrumented) waited(ctx context.Context, granted bool) []metric.RecordOption {
	outcome, with := "rejected", i.rejected
	if granted {
		outcome, with = "granted", i.granted
	}
	if hold.Order(i.l) != core.FairShare {
		return with
	}
	f, _ := core.FlowFromContext(ctx)
	return []metric.RecordOption{i.with(result.String(outcome), priority.String(strconv.Itoa(f.Priority)))}
}

// now reads the monotonic clock only, which takes half the time of time.Now.
func (i *instrumented) now() time.Duration { return time.Since(i.base) }

// timed returns a lease of l's, granted at a given time, as one whose end is recorded.
func (i *instrumented) timed(lease core.Lease, at time.Duration) core.Lease {
	s, ok := i.spans.Get().(*span)
	if !ok {
		s = &span{i: i}
		s.next = ways.Grants(s.finish)
	}
	s.start, s.with = at, i.granted
	if _, ok := core.Shadowed.From(lease); ok {
		s.with = i.shadowed
	}
	parts := i.joiner.Begin()
	parts.Add(lease)
	parts.Add(s.next())
	return parts.Join(lease.Permits())
}

// span is the time for which a lease is held. It serves one lease after another.
type span struct {
	i     *instrumented
	start time.Duration
	with  []metric.RecordOption
	next  func() core.Lease // whose release calls finish
}

// finish is called once for each lease.
func (s *span) finish() {
	i, with, held := s.i, s.with, s.i.now()-s.start
	i.spans.Put(s)
	if !i.stopped.Load() {
		i.lease.Record(context.Background(), held.Seconds(), with...) //nolint:forbidigo // a Release has no context
	}
}

// settle settles the lease of l that is a part of one of the view's, and returns the permits that it then has. At 0
// the lease has ended, and so has its span.
func (i *instrumented) settle(parts []core.Lease, permits int) int {
	had := parts[partOfLimiter].Permits()
	if permits == 0 {
		parts[partOfSpan].Release()
	}
	parts[partOfLimiter] = parts[partOfLimiter].Settle(permits)
	has := parts[partOfLimiter].Permits()
	i.countSettled(has - had)
	return has
}

// countSettled counts a change of a lease's permits.
func (i *instrumented) countSettled(by int) {
	switch {
	case i.stopped.Load():
	case by > 0:
		i.settled.Add(context.Background(), int64(by), i.up) //nolint:forbidigo // a Settle has no context
	case by < 0:
		i.settled.Add(context.Background(), -int64(by), i.down) //nolint:forbidigo // nor has a Refund
	}
}
