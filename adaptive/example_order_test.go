package adaptive_test

import (
	"fmt"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

func ExampleConcurrency_QueueOrder() {
	limiter, err := adaptive.New(adaptive.Options{Max: 100, QueueLimit: 50, QueueOrder: core.FairShare})
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.QueueOrder())
	// Output: fair-share
}

func ExampleShed_QueueOrder() {
	limiter, err := adaptive.NewShed(adaptive.ShedOptions{Probe: adaptive.CPU(), Above: 0.9, QueueLimit: 50})
	if err != nil {
		panic(err)
	}
	defer func() { _ = limiter.Close() }()
	fmt.Println(limiter.QueueOrder())
	// Output: oldest-first
}
