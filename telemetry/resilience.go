package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Resilience returns a function for [resilience.Options].OnRejected that counts rejections as
// sluice.resilience.events, with the attribute values of Polly's metric: event.name is
// OnRateLimiterRejected, event.severity is ERROR, and strategy.name is the strategy. One function
// serves any number of strategies.
func Resilience(o Options) (func(context.Context, *resilience.RejectedError), error) {
	m := o.instruments()
	events := m.counter(metrics.Resilience)
	return func(ctx context.Context, r *resilience.RejectedError) {
		events.Add(ctx, 1, o.with(
			attribute.String("event.name", "OnRateLimiterRejected"),
			attribute.String("event.severity", "ERROR"),
			attribute.String("strategy.name", r.Strategy),
		))
	}, m.err
}
