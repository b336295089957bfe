package cookbook

import (
	"context"
	"iter"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// FanIn passes the records of all sources to one consumer. At most budget bytes are queued: a source
// whose next record does not fit waits. When ctx is done, no source is asked for another record, and those
// that were read are still consumed. An error of consume stops the sources too, and then their records are discarded.
func FanIn(ctx context.Context, budget int, sources []iter.Seq[[]byte], consume func([]byte) error) error {
	memory, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: budget})
	if err != nil {
		return err
	}
	records, err := channel.New(channel.Options[[]byte]{
		Limiter: memory,
		Cost:    func(record []byte) int { return min(len(record), budget) }, // a larger record is alone
	})
	if err != nil {
		return err
	}
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	group := pool.Group(ctx)
	for _, source := range sources {
		group.Go(func(ctx context.Context) error {
			for record := range source {
				if err := records.Send(context.WithoutCancel(ctx), record); err != nil {
					return err
				}
				if err := ctx.Err(); err != nil { // the source watches ctx, and Send does not
					return err
				}
			}
			return nil
		})
	}
	go func() { _ = records.CloseWithError(group.Wait()) }() // there are no more records
	var failed error
	for record := range records.All(context.WithoutCancel(ctx)) { // until records is closed and empty
		if failed != nil {
			continue // so that no source waits for room
		}
		if failed = consume(record); failed != nil {
			stop(failed)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return records.Err()
}
