package resilience

import (
	"context"
	"log/slog"
)

// OnRateLimiterRejected is the name of the event that a refusal is.
const OnRateLimiterRejected = "OnRateLimiterRejected"

const severity = slog.LevelError

// Event is something that telemetry should know of. There is one kind so far: a strategy
// refused to run a function.
type Event struct {
	Name      string         // [OnRateLimiterRejected]
	Severity  slog.Level     // [slog.LevelError]
	Source    Source         // the strategy
	Operation string         // what [WithOperation] said; "": nothing
	Rejected  *RejectedError // what Do returns
}

// tell gives the event to those who want to know of it.
func (t *terms) tell(ctx context.Context, e Event) {
	if t.OnEvent != nil {
		t.OnEvent(ctx, e)
	}
	if t.Logger != nil {
		t.Logger.LogAttrs(ctx, e.Severity, e.Name,
			slog.String("source", e.Source.String()),
			slog.String("operation", e.Operation),
			slog.Duration("retry_after", e.Rejected.RetryAfter))
	}
}

type operationKey struct{}

// WithOperation returns a context that says what is being done, as "GET /orders": the
// operation of the events of all strategies that are given it. The keys should be few;
// they may become the labels of a metric.
func WithOperation(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, operationKey{}, key)
}

// operationOf returns the operation that the context is part of.
func operationOf(ctx context.Context) string {
	key, _ := ctx.Value(operationKey{}).(string)
	return key
}
