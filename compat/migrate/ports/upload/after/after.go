// Package after uploads what a producer makes with Sluice.
package after

import (
	"bytes"
	"context"
	"io"
	"iter"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/worker"
)

// Upload uploads parts, 4 at once and at most 1 MiB/s together. At most 16 parts wait.
func Upload(ctx context.Context, parts iter.Seq[[]byte], upload func(context.Context, io.Reader) error) error {
	bandwidth, err := core.NewTokenBucket(ioreader.PerSecond(1 << 20))
	if err != nil {
		return err
	}
	queue, err := channel.Bounded[[]byte](16)
	if err != nil {
		return err
	}
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited()})
	if err != nil {
		return err
	}
	group := pool.Group(ctx)
	group.Go(func(ctx context.Context) error {
		defer func() { _ = queue.Close() }()
		for part := range parts {
			if err := queue.Send(ctx, part); err != nil {
				return err
			}
		}
		return nil
	})
	for range 4 {
		group.Go(func(ctx context.Context) error {
			for part := range queue.All(ctx) {
				if err := upload(ctx, ioreader.NewReader(ctx, bytes.NewReader(part), bandwidth)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}
