// Package after is a crawler with Sluice.
package after

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/worker"
)

// Crawler fetches pages, 8 at once, and 2 a second from each host.
type Crawler struct {
	client *http.Client
	pool   *worker.Pool
}

// New returns a crawler.
func New(transport http.RoundTripper) (*Crawler, error) {
	hosts, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHost,
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(2, 1)) },
	})
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.NewTransport(httplimit.TransportOptions{Base: transport, Limiter: hosts})
	if err != nil {
		return nil, err
	}
	pool, err := worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8})
	return &Crawler{&http.Client{Transport: limited}, pool}, err
}

// Crawl fetches a page and all pages that it leads to, and returns how many there are.
func (c *Crawler) Crawl(ctx context.Context, start string, links func(page []byte) []string) (int, error) {
	seen := map[string]bool{start: true}
	for frontier := []string{start}; len(frontier) > 0; {
		var next []string
		for page, err := range worker.Map(ctx, c.pool, slices.Values(frontier), c.fetch) {
			if err != nil {
				return 0, err
			}
			for _, u := range links(page) {
				if !seen[u] {
					seen[u] = true
					next = append(next, u)
				}
			}
		}
		frontier = next
	}
	return len(seen), nil
}

func (c *Crawler) fetch(ctx context.Context, u string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}
