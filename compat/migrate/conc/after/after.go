// Package after fetches pages with a worker.Pool.
package after

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// FetchAll fetches the pages, 8 at once. The first error cancels the others.
func FetchAll(ctx context.Context, urls []string, fetch func(context.Context, string) error) error {
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8})
	if err != nil {
		return err
	}
	group := pool.Group(ctx)
	for _, url := range urls {
		group.Go(func(ctx context.Context) error { return fetch(ctx, url) })
	}
	return group.Wait()
}

// Sizes returns the size of each page, in order.
func Sizes(ctx context.Context, urls []string, size func(context.Context, string) (int, error)) ([]int, error) {
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8})
	if err != nil {
		return nil, err
	}
	var sizes []int
	for n, err := range worker.Map(ctx, pool, slices.Values(urls), size) {
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
