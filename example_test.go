package sluice_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A server asks without waiting, a client waits.
func Example() {
	limiter, err := core.NewTokenBucket(core.PerSecond(100, 2)) // 100 a second, 2 at once
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		lease := limiter.TryAcquire(1)
		if !lease.Acquired() {
			retry, _ := core.RetryAfter.From(lease)
			fmt.Println("rejected; try again within 10 ms:", retry <= 10*time.Millisecond)
			continue
		}
		fmt.Println("served")
		lease.Release() // does nothing for a rate, and gives back what a concurrency limiter has lent
	}
	lease, err := limiter.Acquire(context.Background(), 1) // waits for the next token
	fmt.Println(lease.Acquired(), err)
	lease.Release()
	// Output:
	// served
	// served
	// rejected; try again within 10 ms: true
	// true <nil>
}
