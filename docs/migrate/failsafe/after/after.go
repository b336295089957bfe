// Package after calls a service as failsafe-go's rate limiter and bulkhead do, with resilience.
package after

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

// NewExecutor returns an executor of 100 searches a minute, and 10 at once, while 50 others wait.
func NewExecutor() (resilience.Executor, error) {
	minute := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 100, Window: time.Minute}))
	rate := core.Must(resilience.Limit(minute))
	atOnce := core.Must(resilience.Concurrency(10, 50))
	return resilience.Pipeline(resilience.PipelineOptions{Name: "search"}, rate, atOnce)
}

// Search searches, or says that there were too many searches: a *resilience.RejectedError, with the time of the next try.
func Search(ctx context.Context, executor resilience.Executor, search func(context.Context) (string, error)) (string, error) {
	return resilience.Execute(ctx, executor, search)
}
