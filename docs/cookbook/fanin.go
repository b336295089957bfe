package cookbook

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// FanIn passes the records of all sources to one consumer. At most budget bytes are queued: a source
// whose next record finds no room waits. The first error ends all.
func FanIn(ctx context.Context, budget int, sources []iter.Seq[[]byte], consume func([]byte) error) error {
	memory, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: budget, QueueLimit: math.MaxInt})
	if err != nil {
		return err
	}
	records, err := channel.New(channel.Options[[]byte]{
		Limiter: memory,
		Permits: func(record []byte) int { return min(len(record), budget) }, // a larger record comes alone
	})
	if err != nil {
		return err
	}
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group := pool.Group(ctx)
	for _, source := range sources {
		group.Go(func(ctx context.Context) error {
			for record := range source {
				if err := records.Send(ctx, record); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(group.Wait(), records.Close()) }()
	for record := range records.All(ctx) { // until it is closed and empty, or ctx is done
		if err := consume(record); err != nil {
			cancel(err) // the sources stop
		}
	}
	return cmp.Or(context.Cause(ctx), <-done)
}
