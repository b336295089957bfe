package core

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// timeLeft returns the nanoseconds until the deadline of ctx, or Never. Of a deadline by the
// wall clock it says what the timers of package context go by.
func timeLeft(ctx context.Context) int64 {
	if d, ok := ctx.Deadline(); ok {
		return int64(time.Until(d))
	}
	return machine.Never
}

// ended returns the error of a context whose Done is closed. One of somebody's own may not
// know it yet in its Err; that is a cancellation.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}
