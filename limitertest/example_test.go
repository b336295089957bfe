package limitertest_test

import (
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// A test that forgets to release a lease. In a real one t is its *testing.T.
func ExampleNoLeaks() {
	t := new(recorder)
	slots := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10}))
	limitertest.NoLeaks(t, slots)

	slots.TryAcquire(1).Release()
	slots.TryAcquire(3) // and who releases this one?

	for _, message := range t.end() {
		fmt.Println(message)
	}
	// Output:
	// limitertest: limiter 0 (*core.ConcurrencyLimiter): 3 of 10 permits were not released
}
