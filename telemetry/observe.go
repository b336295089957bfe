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

// Observe reports what l counts, under a name: sluice.limiter.permits.limit, .available and
// .queued, and sluice.limiter.leases. It reads l's Statistics at each collection and costs
// nothing in between.
//
// stop ends it: it reads the Statistics once more, and from then on the gauges are gone and
// sluice.limiter.leases keeps its value. A second stop does nothing. A limiter that is observed
// later under that name, in place of l, adds to that value, so the counter never falls.
//
// Give each limiter a name, or other attributes, of its own. Among limiters with equal names and
// attributes that are observed at the same time, each gauge shows only one, and the counter is
// their sum.
//
// If l's Statistics method panics, the collection reports an error for l and goes on.
//
// The counter is moved by the collection of the gauges. A view of OpenTelemetry's that drops all
// three gauges therefore stops the counter too.
func Observe(o Options, name string, l core.Reporter) (stop func() error, err error) {
	if backdoor.IsNil(l) {
		return nil, fmt.Errorf("telemetry: Observe of limiter %q, which is nil", name)
	}
	return o.observe(name, metrics.Limiter, func() []int64 { return metrics.OfLimiter(l.Statistics()) })
}

// observe has a meter call read, which returns a number for each column, at each collection
// until stop.
func (o Options) observe(name string, columns []metrics.Column, read func() []int64) (stop func() error, err error) {
	m := o.meter()
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
			s.counter, err = counter(m, c.Metric)
		} else {
			s.gauge, err = m.Int64ObservableGauge(c.Name, metric.WithUnit(c.Unit), metric.WithDescription(c.Description))
			gauges = append(gauges, s.gauge)
		}
		if err != nil {
			return nil, err
		}
	}
	v.registration, err = m.RegisterCallback(v.collect, gauges...)
	if err != nil {
		return nil, err
	}
	return sync.OnceValue(v.stop), nil
}

// observation is what Observe or Partitions reads.
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

// series is where one of the numbers goes.
//
// The totals go to an ordinary counter, not to an observable one. An observable counter would
// show what the limiters that are observed now have counted, and would fall when one is stopped.
type series struct {
	gauge   metric.Int64ObservableGauge
	counter metric.Int64Counter // nil for a gauge
	with    metric.MeasurementOption
	seen    atomic.Int64 // the part of the total that the counter has
}

// collect reads the numbers and reports them, the gauges only if there is an observer.
func (v *observation) collect(ctx context.Context, to metric.Observer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: reading %q panicked: %v", v.name, p)
		}
	}()
	for i, n := range v.read() {
		switch s := &v.series[i]; {
		case s.counter != nil:
			s.addUpTo(ctx, n)
		case to != nil:
			to.ObserveInt64(s.gauge, n, s.with)
		}
	}
	return nil
}

// addUpTo moves the counter up to a total, unless another collection, which may run at the same
// time, has moved it there or further.
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
