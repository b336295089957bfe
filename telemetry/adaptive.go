package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Adaptive returns a function for [adaptive.Options].OnChange that reports, at each change of the limit of the
// limiter with that name:
//
//   - sluice.adaptive.changes: a counter; its sluice.adaptive.reason is [adaptive.Change].Reason, such as "trial" or
//     "overloaded", which names the phase of the algorithm. The algorithms of package adaptive have seven reasons; an
//     Algorithm of your own has as many series as reasons.
//   - sluice.adaptive.latency: the mean latency of the sample that led to the change.
//   - sluice.adaptive.baseline: the latency without load that the algorithm assumes.
//
// The last two have no value until the first one is known, and keep it until the next one is. The limit itself is
// reported by [Observe].
func Adaptive(o Options, name string) (func(adaptive.Change), error) {
	m := o.instruments()
	changes := m.counter(metrics.Changes)
	times := make([]metric.Float64Gauge, 0, len(metrics.Adaptive))
	for _, of := range metrics.Adaptive {
		times = append(times, instrument(m, metric.Meter.Float64Gauge, of))
	}
	if m.err != nil {
		return nil, m.err
	}
	of := limiterName.String(name)
	with := o.with(of)
	return func(c adaptive.Change) {
		ctx := context.Background() //nolint:forbidigo // OnChange has no context
		changes.Add(ctx, 1, o.with(of, attribute.String("sluice.adaptive.reason", c.Reason)))
		for i, seconds := range metrics.OfChange(c) {
			if seconds > 0 {
				times[i].Record(ctx, seconds, with)
			}
		}
	}, nil
}
