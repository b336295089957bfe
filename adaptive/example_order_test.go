package adaptive_test

import (
	"fmt"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

func ExampleConcurrency_QueueOrder() {
	limiter := core.Must(adaptive.New(adaptive.Options{Max: 100, QueueLimit: 50, QueueOrder: core.FairShare}))
	fmt.Println(limiter.QueueOrder())
	// Output: fair-share
}

func ExampleShed_QueueOrder() {
	limiter := core.Must(adaptive.NewShed(adaptive.ShedOptions{Probe: adaptive.CPU(), Threshold: 0.9, QueueLimit: 50}))
	defer func() { _ = limiter.Close() }()
	fmt.Println(limiter.QueueOrder())
	// Output: oldest-first
}
