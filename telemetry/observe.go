package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Observe reports the statistics of l under a name: sluice.limiter.permits.limit, .available and
// .queued, and sluice.limiter.leases. It reads l's Statistics at each collection and costs nothing in
// between.
//
// Call stop to end the observation. It reads the Statistics a last time, removes the gauges, and leaves
// sluice.limiter.leases at its value. Calling stop again does nothing. A limiter that is observed later
// under the same name adds to that value, so the counter never falls.
//
// Give each limiter its own name or attributes. If limiters with equal names and attributes are observed
// at the same time, each gauge shows only one of them, and the counter is their sum.
//
// If l's Statistics method panics, the collection reports an error for l and continues.
//
// The collection of the gauges also updates the counter. Therefore an OpenTelemetry view that drops all
// three gauges stops the counter too.
func Observe(o Options, name string, l core.Reporter) (stop func() error, err error) {
	if backdoor.IsNil(l) {
		return nil, fmt.Errorf("telemetry: Observe of limiter %q, which is nil", name)
	}
	return o.observe(name, metrics.Limiter, func() []int64 { return metrics.OfLimiter(l.Statistics()) })
}

// observe makes a meter call read at each collection until stop. read returns a number per column.
func (o Options) observe(name string, columns []metrics.Column, read func() []int64) (stop func() error, err error) {
	m := o.instruments()
	v := &observation{name: name, read: read, series: make([]series, len(columns))}
	var gauges []metric.Observable
	for i, c := range columns {
		s := &v.series[i]
		own := []attribute.KeyValue{limiterName.String(name)}
		if c.Result != "" {
			own = append(own, result.String(c.Result))
		}
		s.with = o.with(own...)
		if c.Counter {
			s.counter = m.counter(c.Metric)
		} else {
			s.gauge = instrument(m, metric.Meter.Int64ObservableGauge, c.Metric)
			gauges = append(gauges, s.gauge)
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	if v.registration, err = m.RegisterCallback(v.collect, gauges...); err != nil {
		return nil, err
	}
	return sync.OnceValue(v.stop), nil
}

// observation is a source of numbers that Observe or Partitions reads.
type observation struct {
	name   string
	read   func() []int64
	series []series

	registration metric.Registration
}

// stop ends the collections with one of its own, so that no count is lost.
func (v *observation) stop() error {
	return errors.Join(v.registration.Unregister(), v.collect(context.Background(), nil)) //nolint:forbidigo // stop has no context
}

// series is the destination of one of the numbers.
//
// Totals go to an ordinary counter, not to an observable one. An observable counter would be the sum of
// the limiters that are currently observed, and would fall when one is stopped.
type series struct {
	gauge   metric.Int64ObservableGauge
	counter metric.Int64Counter // nil for a gauge
	with    metric.MeasurementOption
	seen    atomic.Int64 // the part of the total that the counter contains
}

// collect reads the numbers and reports them, the gauges only if there is an observer.
func (v *observation) collect(ctx context.Context, to metric.Observer) error {
	numbers, err := metrics.Read(v.read)
	if err != nil {
		return fmt.Errorf("telemetry: reading %q %w", v.name, err)
	}
	for i, n := range numbers {
		switch s := &v.series[i]; {
		case s.counter != nil:
			s.addUpTo(ctx, n)
		case to != nil:
			to.ObserveInt64(s.gauge, n, s.with)
		}
	}
	return nil
}

// addUpTo raises the counter to a total, unless a concurrent collection has raised it that far.
func (s *series) addUpTo(ctx context.Context, total int64) {
	for {
		seen := s.seen.Load()
		if total < seen {
			return
		}
		if s.seen.CompareAndSwap(seen, total) {
			s.counter.Add(ctx, total-seen, s.with)
			return
		}
	}
}
