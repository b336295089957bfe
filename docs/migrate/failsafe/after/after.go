// Package after calls a service with resilience, in place of failsafe-go's rate limiter and bulkhead.
package after

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

// NewExecutor returns a strategy that allows 100 searches a minute and 10 at a time. Up to 50 others wait.
func NewExecutor() (*resilience.Strategy, error) {
	minute := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 100, Window: time.Minute}))
	concurrent := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 50}))
	return resilience.New(resilience.Options{Name: "search", Limiter: core.Must(core.Chain(minute, concurrent))})
}

// Search runs a search. If there are too many searches, its error is a *resilience.RejectedError, which has the time
// to retry and wraps the *core.RejectedError.
func Search(ctx context.Context, s *resilience.Strategy, search func(context.Context) (string, error)) (string, error) {
	return resilience.Execute(ctx, s, search)
}
