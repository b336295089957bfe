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
	s, err := resilience.Concurrency(10, 100) // ten at once, a hundred wait
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	page, err := resilience.Execute(context.Background(), s, fetch)
	fmt.Println(page, err)
	// Output: page <nil>
}

func ExampleLimit() {
	bucket, err := core.NewTokenBucket(core.PerSecond(100, 10)) // calls wait as long as it takes
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := resilience.Limit(bucket)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := resilience.Execute(context.Background(), s, fetch)
	fmt.Println(page, err)
	// Output: page <nil>
}

func ExampleRejectedError() {
	bucket, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := resilience.New(resilience.Options{
		Name:    "per hour",
		Limiter: bucket,
		OnEvent: func(_ context.Context, e resilience.Event) {
			fmt.Println(e.Name, "during", e.Operation)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := resilience.WithOperation(context.Background(), "fetch")
	for range 2 {
		page, err := resilience.Execute(ctx, s, fetch)
		if r := new(resilience.RejectedError); errors.As(err, &r) {
			fmt.Println("refused by", r.Source, "- retry after", r.RetryAfter.Round(time.Hour))
			continue
		}
		fmt.Println(page)
	}
	// Output:
	// page
	// OnRateLimiterRejected during fetch
	// refused by (null)/(null)/per hour - retry after 1h0m0s
}

func ExamplePipeline() {
	perSecond, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	rate, err := resilience.New(resilience.Options{Name: "rate", Limiter: perSecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	atOnce, err := resilience.Concurrency(8, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := resilience.Pipeline(resilience.PipelineOptions{Name: "orders"}, rate, atOnce)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := resilience.Execute(context.Background(), p, fetch)
	fmt.Println(page, err)
	// Output: page <nil>
}

func ExampleStrategy_Update() {
	s, err := resilience.New(resilience.Options{}) // 1,000 at once
	if err != nil {
		fmt.Println(err)
		return
	}
	// The configuration has changed: what runs goes on, and later calls see the new terms.
	err = s.Update(resilience.Options{Default: core.ConcurrencyLimiterOptions{PermitLimit: 50, QueueLimit: 200}})
	fmt.Println(err)
	// Output: <nil>
}

// A call costs one permit until the number of tokens that it used is known.
func ExampleOptions_settle() {
	tokens, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1000, ReplenishmentPeriod: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	type usage struct{ tokens int }
	s, err := resilience.New(resilience.Options{
		Limiter: tokens,
		Settle: func(ctx context.Context, err error) int {
			if err != nil {
				return 0 // a failure costs nothing
			}
			return ctx.Value(usage{}).(*usage).tokens
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.WithValue(context.Background(), usage{}, new(usage))
	err = s.Do(ctx, func(ctx context.Context) error {
		ctx.Value(usage{}).(*usage).tokens = 300 // as the answer says
		return nil
	})
	fmt.Println(tokens.Available(), err)
	// Output: 700 <nil>
}
