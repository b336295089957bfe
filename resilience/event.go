package resilience

import (
	"context"
	"log/slog"
)

// OnRateLimiterRejected is the name of the event that a rejection is.
const OnRateLimiterRejected = "OnRateLimiterRejected"

// Event is for telemetry. There is one kind: a strategy rejected a function.
type Event struct {
	Name      string         // [OnRateLimiterRejected]
	Severity  slog.Level     // [slog.LevelError]
	Source    Source         // the strategy
	Operation string         // the key of [WithOperation]; "": none
	Rejected  *RejectedError // what Do returns
}

// report calls OnEvent and the Logger for a rejection.
func (c *config) report(ctx context.Context, r *RejectedError, source Source) {
	e := Event{OnRateLimiterRejected, slog.LevelError, source, operationOf(ctx), r}
	if c.OnEvent != nil {
		c.OnEvent(ctx, e)
	}
	if c.Logger != nil {
		c.Logger.LogAttrs(ctx, e.Severity, e.Name,
			slog.String("source", source.String()),
			slog.String("operation", e.Operation),
			slog.Duration("retry_after", r.RetryAfter))
	}
}

type operationKey struct{}

// WithOperation returns a context with the key of the operation that is being done, such as "GET
// /orders". The events of all strategies that are given the context have it. There should be few
// different keys, as they may become the labels of a metric.
func WithOperation(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, operationKey{}, key)
}

// operationOf returns the key of the operation, or "".
func operationOf(ctx context.Context) string {
	key, _ := ctx.Value(operationKey{}).(string)
	return key
}
