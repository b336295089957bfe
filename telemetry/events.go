package telemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Events returns a function for [resilience.Options].OnEvent that counts events as
// sluice.resilience.events. An attribute for which an event has no value is empty. One function
// serves any number of strategies. Operation keys become attributes: there should be few
// different ones.
func Events(o Options) (func(context.Context, resilience.Event), error) {
	o.Attributes = slices.Clone(o.Attributes) // it is read later
	events, err := counter(o.meter(), metrics.Events)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, e resilience.Event) {
		events.Add(ctx, 1, o.with(
			attribute.String("event.name", e.Name),
			attribute.String("event.severity", e.Severity.String()),
			attribute.String("pipeline.name", e.Source.Pipeline),
			attribute.String("pipeline.instance", e.Source.Instance),
			attribute.String("strategy.name", e.Source.Strategy),
			attribute.String("operation.key", e.Operation),
		))
	}, nil
}
