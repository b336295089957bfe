package cookbook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-go/sluice/adaptive"
)

// Consume handles messages until next fails. The number of concurrent messages adapts to the latency of
// the database: when it slows down, fewer messages are taken from the queue. One message waits for the
// limiter, so the limiter needs a QueueLimit of at least 1.
func Consume(ctx context.Context, limiter *adaptive.Concurrency,
	next func(context.Context) (string, error), store func(context.Context, string) error,
) error {
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		message, err := next(ctx)
		if err != nil {
			return err
		}
		lease, err := limiter.Acquire(ctx, 1) // waits while the database is at its limit
		if err != nil {
			return err // ctx is done: return the message to the queue here
		}
		handlers.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := store(ctx, message); errors.Is(err, context.DeadlineExceeded) {
				limiter.Drop(lease) // the limit shrinks; return the message to the queue here
				return
			}
			lease.Release() // the limiter adjusts its limit to how long the call took
		})
	}
}
