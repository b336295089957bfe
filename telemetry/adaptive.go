package telemetry

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Adaptive returns a function for [adaptive.Options].OnChange that reports, at each change of the limit of the
// limiter with that name:
//
//   - sluice.adaptive.changes: a counter; its sluice.adaptive.reason is [adaptive.Change].Reason, such as "trial" or
//     "overloaded", which names the phase of the algorithm. There are about ten reasons; an Algorithm of your own has
//     as many series as reasons.
//   - sluice.adaptive.latency: the mean latency of the sample that led to the change.
//   - sluice.adaptive.baseline: the latency without load that the algorithm assumes. It has no value until there is one.
//
// The limit itself is reported by [Observe].
func Adaptive(o Options, name string) (func(adaptive.Change), error) {
	o.Attributes = slices.Clone(o.Attributes) // it is read later
	m := o.meter()
	seconds := func(of metrics.Metric) (metric.Float64Gauge, error) {
		return m.Float64Gauge(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Description))
	}
	changes, e1 := counter(m, metrics.Changes)
	latency, e2 := seconds(metrics.Latency)
	baseline, e3 := seconds(metrics.Baseline)
	if err := errors.Join(e1, e2, e3); err != nil {
		return nil, err
	}
	of := limiterName.String(name)
	with := o.with(of)
	return func(c adaptive.Change) {
		ctx := context.Background() //nolint:forbidigo // OnChange has no context
		changes.Add(ctx, 1, o.with(of, attribute.String("sluice.adaptive.reason", c.Reason)))
		if c.Latency > 0 { // a drop without successes has none
			latency.Record(ctx, c.Latency.Seconds(), with)
		}
		if c.Baseline > 0 {
			baseline.Record(ctx, c.Baseline.Seconds(), with)
		}
	}, nil
}
