// Package after calls a service as Polly's rate limiters do, with resilience.
package after

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

// NewPipeline returns a pipeline of 100 searches a minute, and 10 at once, with 50 waiting.
func NewPipeline() (resilience.Executor, error) {
	window, err := core.NewSlidingWindow(core.SlidingWindowOptions{
		PermitLimit:       100,
		Window:            time.Minute,
		SegmentsPerWindow: 4,
	})
	if err != nil {
		return nil, err
	}
	rate, err := resilience.Limit(window)
	if err != nil {
		return nil, err
	}
	atOnce, err := resilience.Concurrency(10, 50)
	if err != nil {
		return nil, err
	}
	return resilience.Pipeline(resilience.PipelineOptions{Name: "search"}, rate, atOnce)
}

// Search searches, or says when to try again.
func Search(
	ctx context.Context, pipeline resilience.Executor, search func(context.Context) (string, error),
) (string, error) {
	result, err := resilience.Execute(ctx, pipeline, search)
	var rejected *resilience.RejectedError
	if errors.As(err, &rejected) && rejected.RetryAfter > 0 {
		return "", fmt.Errorf("try again in %v: %w", rejected.RetryAfter, err)
	}
	return result, err
}
