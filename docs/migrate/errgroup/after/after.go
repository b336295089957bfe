// Package after fetches pages with a worker.Pool.
package after

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// FetchAll fetches the pages, 8 at a time. The first error cancels the others.
func FetchAll(ctx context.Context, urls []string, fetch func(context.Context, string) error) error {
	pool := core.Must(worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8}))
	group := pool.Group(ctx)
	for _, url := range urls {
		group.Go(func(ctx context.Context) error { return fetch(ctx, url) })
	}
	return group.Wait()
}
