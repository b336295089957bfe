package telemetry

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

// times is the histograms of an instrumented limiter.
type times struct {
	queue, lease      metric.Float64Histogram
	granted, rejected []metric.RecordOption // slices, since a list of arguments is made anew each time
	base              time.Time             // what instants are counted from
	stopped           atomic.Bool
}

func newTimes(o Options, name string) (*times, error) {
	m := o.meter()
	queue, err := durations(m, "sluice.limiter.queue.duration", "How long acquisitions waited.")
	lease, err2 := durations(m, "sluice.limiter.lease.duration", "How long leases were held.")
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &times{
		queue: queue, lease: lease, base: time.Now(),
		granted:  []metric.RecordOption{o.with(limiterName.String(name), result.String(granted))},
		rejected: []metric.RecordOption{o.with(limiterName.String(name), result.String(rejected))},
	}, nil
}

// waited is told how long an Acquire has waited.
func (t *times) waited(ctx context.Context, d time.Duration, acquired bool) {
	if t.stopped.Load() {
		return
	}
	with := t.rejected
	if acquired {
		with = t.granted
	}
	t.queue.Record(ctx, max(d, 0).Seconds(), with...)
}

// held is told how long a lease was held.
func (t *times) held(d time.Duration) {
	if !t.stopped.Load() {
		t.lease.Record(context.Background(), max(d, 0).Seconds(), t.granted...) //nolint:forbidigo // a Release has no context
	}
}

// Ended is told of the end of a lease that core timed.
func (t *times) Ended(_ direct.Cause, e direct.End) { t.held(e.Held) }

// newStopwatch returns a limiter that grants everything and times its leases, to be chained
// after l.
func newStopwatch(l core.Limiter, t *times) (core.Limiter, error) {
	s := &spans{times: t}
	if !showsTerms(l) {
		return s, nil
	}
	inner, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: maxWatched})
	if err != nil {
		return nil, err
	}
	w, _ := direct.Core[core.Lease]().Watch(inner, t)
	return &watch{w, s}, nil
}

// showsTerms reports whether all leases of l tell of its limit. Then a chain of it does not
// tell of a limit that comes after it.
func showsTerms(l core.Limiter) bool {
	switch l := l.(type) {
	case *core.ConcurrencyLimiter, *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow, *adaptive.Concurrency:
		return true
	case *core.ChainedLimiter:
		return slices.ContainsFunc(l.Limiters(), showsTerms)
	}
	return false
}

// maxWatched is the largest limit for which core keeps what it has to in a lease itself.
const maxWatched = 1<<30 - 1

// watch times leases without allocating. Its leases tell of a limit, which has to be hidden
// by that of another in the chain.
type watch struct {
	direct.Watched[core.Lease]

	beyond *spans // for the leases beyond maxWatched
}

func (w *watch) TryAcquire(int) core.Lease {
	if l := w.Watched.TryAcquire(1); l.Acquired() {
		return l
	}
	return w.beyond.TryAcquire(0)
}

func (w *watch) Acquire(context.Context, int) (core.Lease, error) { return w.TryAcquire(0), nil }

func (w *watch) Available() int { return math.MaxInt }

// spans times leases that tell of nothing.
type spans struct {
	times *times
	pool  sync.Pool // of *span
}

func (s *spans) TryAcquire(int) core.Lease {
	p, _ := s.pool.Get().(*span)
	if p == nil {
		p = &span{spans: s}
		p.end = p.finish
	}
	p.since = time.Since(s.times.base)
	return core.Grant(0, p.end)
}

func (s *spans) Acquire(context.Context, int) (core.Lease, error) { return s.TryAcquire(0), nil }

func (s *spans) Available() int { return math.MaxInt }

// span is the time that one lease is held, and then another.
type span struct {
	spans *spans
	since time.Duration
	end   func() // finish: made once
}

// finish is called once for each lease.
func (p *span) finish() {
	s, d := p.spans, time.Since(p.spans.times.base)-p.since
	s.pool.Put(p)
	s.times.held(d)
}
