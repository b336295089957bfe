package cookbook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-go/sluice/adaptive"
)

// Consume handles messages until next fails. How many at once follows from how fast the database
// answers: when it slows down, fewer messages are taken from the queue.
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
		lease, err := limiter.Acquire(ctx, 1) // waits while the database has enough to do
		if err != nil {
			return err
		}
		handlers.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := store(ctx, message); errors.Is(err, context.DeadlineExceeded) {
				limiter.Drop(lease) // the limit shrinks; give the message back to the queue here
				return
			}
			lease.Release() // how long it took says how many the database can do at once
		})
	}
}
