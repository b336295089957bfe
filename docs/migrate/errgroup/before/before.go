// Package before fetches pages with golang.org/x/sync/errgroup.
package before

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// FetchAll fetches the pages, 8 at a time. The first error cancels the others.
func FetchAll(ctx context.Context, urls []string, fetch func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, url := range urls {
		group.Go(func() error { return fetch(ctx, url) })
	}
	return group.Wait()
}
