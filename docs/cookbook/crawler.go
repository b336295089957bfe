package cookbook

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/worker"
)

// Crawl visits pages, up to 8 at a time and each host once a second. It waits longer if a server asks
// for that in Retry-After. If base is nil, it uses http.DefaultTransport.
func Crawl(ctx context.Context, base http.RoundTripper, urls []string, visit func(*http.Response) error) error {
	hosts, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHost,
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.Every(time.Second, 1)) },
	})
	if err != nil {
		return err
	}
	defer func() { _ = hosts.Close() }()
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{Base: base, Limiter: hosts, HonorRetryAfter: true, Retries: 2})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}

	pool, err := worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8}) // like errgroup's SetLimit(8)
	if err != nil {
		return err
	}
	group := pool.Group(ctx)
	for _, url := range urls {
		group.Go(func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			return visit(response)
		})
	}
	return group.Wait() // the first error, which has canceled the rest
}
