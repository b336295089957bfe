package failsafe_test

import (
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
	sluice "github.com/sluice-go/sluice/resilience/failsafe"
)

// At most 10 at once, and 100 may wait.
func ExamplePolicy() {
	strategy := core.Must(resilience.Concurrency(10, 100))
	defer strategy.Close()
	page, err := failsafe.With(sluice.Policy[string](strategy)).Get(func() (string, error) { return "page", nil })
	fmt.Println(page, err)
	// Output: page <nil>
}

// A rejected call is tried again when the limiter has a permit. The circuit breaker sees no rejection.
func ExampleRetryAfter() {
	bucket := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 10 * time.Millisecond,
	}))
	strategy := core.Must(resilience.Limit(bucket))
	retry := retrypolicy.NewBuilder[string]().
		HandleErrors(core.ErrRejected).
		WithMaxRetries(3).
		WithDelayFunc(sluice.RetryAfter[string]).
		Build()
	breaker := circuitbreaker.NewWithDefaults[string]()
	executor := failsafe.With(retry, sluice.Policy[string](strategy), breaker)
	for range 2 {
		fmt.Println(executor.Get(func() (string, error) { return "page", nil }))
	}
	// Output:
	// page <nil>
	// page <nil>
}
