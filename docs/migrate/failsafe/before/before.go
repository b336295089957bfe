// Package before calls a service under failsafe-go's rate limiter and bulkhead.
package before

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
)

// NewExecutor returns an executor that allows 100 searches a minute and 10 at a time. Others wait for up to 2 seconds.
func NewExecutor() failsafe.Executor[string] {
	rate := ratelimiter.NewBursty[string](100, time.Minute)
	atOnce := bulkhead.NewBuilder[string](10).WithMaxWaitTime(2 * time.Second).Build()
	return failsafe.With[string](rate, atOnce)
}

// Search runs a search. If there are too many searches, its error is ratelimiter.ErrExceeded or bulkhead.ErrFull.
func Search(ctx context.Context, executor failsafe.Executor[string], search func(context.Context) (string, error)) (string, error) {
	return executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[string]) (string, error) {
		return search(e.Context())
	})
}
