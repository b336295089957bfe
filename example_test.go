package sluice_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// A client that asks too often is told when to come back. Acquire would wait instead.
func Example() {
	limiter, err := core.NewTokenBucket(core.Every(time.Minute, 2)) // one a minute, two at once
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		lease := limiter.TryAcquire(1)
		if !lease.Acquired() {
			retry, _ := core.RetryAfter.From(lease)
			fmt.Println("try again in", retry.Round(time.Second))
			continue
		}
		fmt.Println("served")
		lease.Release() // does nothing for a rate; a concurrency limiter gets its permit back
	}
	// Output:
	// served
	// served
	// try again in 1m0s
}
