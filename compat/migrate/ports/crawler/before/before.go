// Package before is a crawler with x/time/rate and errgroup.
package before

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Crawler fetches pages, 8 at once, and 2 a second from each host.
type Crawler struct {
	client *http.Client
	mu     sync.Mutex
	hosts  map[string]*rate.Limiter
}

// New returns a crawler.
func New(transport http.RoundTripper) *Crawler {
	return &Crawler{client: &http.Client{Transport: transport}, hosts: map[string]*rate.Limiter{}}
}

// Crawl fetches a page and all pages that it leads to, and returns how many there are.
func (c *Crawler) Crawl(ctx context.Context, start string, links func(page []byte) []string) (int, error) {
	seen := map[string]bool{start: true}
	for frontier := []string{start}; len(frontier) > 0; {
		var mu sync.Mutex
		var found []string
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(8)
		for _, u := range frontier {
			g.Go(func() error {
				page, err := c.fetch(ctx, u)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				found = append(found, links(page)...)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
		frontier = frontier[:0]
		for _, u := range found {
			if !seen[u] {
				seen[u] = true
				frontier = append(frontier, u)
			}
		}
	}
	return len(seen), nil
}

func (c *Crawler) fetch(ctx context.Context, u string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return nil, err
	}
	if err := c.host(request.URL).Wait(ctx); err != nil {
		return nil, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

func (c *Crawler) host(u *url.URL) *rate.Limiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.hosts[u.Host]
	if !ok {
		l = rate.NewLimiter(2, 1)
		c.hosts[u.Host] = l
	}
	return l
}
