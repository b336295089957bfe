package telemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Resilience returns a function for [resilience.Options].OnRejected that counts rejections as
// sluice.resilience.events, with the attribute values of Polly's metric: event.name is
// OnRateLimiterRejected, event.severity is ERROR, and strategy.name is the strategy. One function
// serves any number of strategies.
func Resilience(o Options) (func(context.Context, *resilience.RejectedError), error) {
	o.Attributes = slices.Clone(o.Attributes) // it is read later
	events, err := counter(o.meter(), metrics.Resilience)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *resilience.RejectedError) {
		events.Add(ctx, 1, o.with(
			attribute.String("event.name", "OnRateLimiterRejected"),
			attribute.String("event.severity", "ERROR"),
			attribute.String("strategy.name", r.Strategy),
		))
	}, nil
}
