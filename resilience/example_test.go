package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

func fetch(context.Context) (string, error) { return "page", nil }

func Example() {
	s := core.Must(resilience.Concurrency(10, 100)) // 10 run at a time, 100 wait
	defer s.Close()
	page, err := resilience.Execute(context.Background(), s, fetch)
	fmt.Println(page, err)
	// Output: page <nil>
}

func ExampleLimit() {
	bucket := core.Must(core.NewTokenBucket(core.PerSecond(100, 10))) // its queue is unbounded
	s := core.Must(resilience.Limit(bucket))
	page, err := resilience.Execute(context.Background(), s, fetch)
	fmt.Println(page, err)
	// Output: page <nil>
}

func ExampleRejectedError() {
	bucket := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	s := core.Must(resilience.New(resilience.Options{
		Name:    "per hour",
		Limiter: bucket,
		OnRejected: func(_ context.Context, r *resilience.RejectedError) {
			fmt.Println("rejected by", r.Strategy)
		},
	}))
	for range 2 {
		page, err := resilience.Execute(context.Background(), s, fetch)
		if r := new(resilience.RejectedError); errors.As(err, &r) {
			fmt.Println("retry after", r.RetryAfter.Round(time.Hour))
			continue
		}
		fmt.Println(page)
	}
	// Output:
	// page
	// rejected by per hour
	// retry after 1h0m0s
}

func ExampleStrategy_Update() {
	s := core.Must(resilience.New(resilience.Options{})) // 1,000 at a time
	// Functions that run continue; later calls see the new limit.
	err := s.Update(resilience.Options{Default: core.ConcurrencyLimiterOptions{PermitLimit: 50, QueueLimit: 200}})
	fmt.Println(err)
	// Output: <nil>
}

// A call costs one permit until the number of tokens that it used is known.
func ExampleOptions_settle() {
	tokens := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1000, ReplenishmentPeriod: time.Hour}))
	type usage struct{ tokens int }
	s := core.Must(resilience.New(resilience.Options{
		Limiter: tokens,
		Settle: func(ctx context.Context, err error) int {
			if err != nil {
				return 0 // a failure costs nothing
			}
			return ctx.Value(usage{}).(*usage).tokens
		},
	}))
	ctx := context.WithValue(context.Background(), usage{}, new(usage))
	err := s.Do(ctx, func(ctx context.Context) error {
		ctx.Value(usage{}).(*usage).tokens = 300 // from the response
		return nil
	})
	fmt.Println(tokens.Available(), err)
	// Output: 700 <nil>
}
