// Package before fetches pages with github.com/alitto/pond.
package before

import (
	"context"

	"github.com/alitto/pond/v2"
)

// FetchAll fetches the pages, 8 at once. The first error cancels the others.
func FetchAll(ctx context.Context, urls []string, fetch func(context.Context, string) error) error {
	pool := pond.NewPool(8)
	group := pool.NewGroupContext(ctx)
	ctx = group.Context() //nolint:contextcheck // it is a child of ctx
	for _, url := range urls {
		group.SubmitErr(func() error { return fetch(ctx, url) })
	}
	return group.Wait()
}

// Sizes returns the size of each page, in order.
func Sizes(ctx context.Context, urls []string, size func(string) (int, error)) ([]int, error) {
	pool := pond.NewResultPool[int](8)
	group := pool.NewGroupContext(ctx)
	for _, url := range urls {
		group.SubmitErr(func() (int, error) { return size(url) })
	}
	return group.Wait()
}
