// Package before calls a service under failsafe-go's rate limiter and bulkhead.
package before

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
)

// NewExecutor returns an executor of 100 searches a minute, and 10 at once, while others wait for up to 2 seconds.
func NewExecutor() failsafe.Executor[string] {
	rate := ratelimiter.NewBursty[string](100, time.Minute)
	atOnce := bulkhead.NewBuilder[string](10).WithMaxWaitTime(2 * time.Second).Build()
	return failsafe.With[string](rate, atOnce)
}

// Search searches, or says that there were too many searches: ratelimiter.ErrExceeded or bulkhead.ErrFull.
func Search(ctx context.Context, executor failsafe.Executor[string], search func(context.Context) (string, error)) (string, error) {
	return executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[string]) (string, error) { //nolint:contextcheck // e has it
		return search(e.Context())
	})
}
