// Package before fetches pages with github.com/sourcegraph/conc.
package before

import (
	"context"

	"github.com/sourcegraph/conc/iter"
	"github.com/sourcegraph/conc/pool"
)

// FetchAll fetches the pages, 8 at once. The first error cancels the others.
func FetchAll(ctx context.Context, urls []string, fetch func(context.Context, string) error) error {
	p := pool.New().WithMaxGoroutines(8).WithContext(ctx).WithCancelOnError().WithFirstError()
	for _, url := range urls {
		p.Go(func(ctx context.Context) error { return fetch(ctx, url) })
	}
	return p.Wait()
}

// Sizes returns the size of each page, in order.
func Sizes(urls []string, size func(string) (int, error)) ([]int, error) {
	mapper := iter.Mapper[string, int]{MaxGoroutines: 8}
	return mapper.MapErr(urls, func(url *string) (int, error) { return size(*url) })
}
