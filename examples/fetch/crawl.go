package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/worker"
)

// maxPage is the number of bytes read from one page, at most.
const maxPage = 1 << 20

// crawl is one run over a server.
type crawl struct {
	settings settings
	pool     *worker.Pool
	client   *http.Client
	progress *progress
	first    *url.URL

	inFlight, mostInFlight atomic.Int64 // requests
	started                time.Time
	took                   time.Duration

	// Used by the consumer only.
	pages, failed int
	bytes         int64
	firstFailure  error
}

// fetched is the response from an address.
type fetched struct {
	address string
	bytes   int64
	links   []string
}

func newCrawl(s settings, p *worker.Pool, out *progress) *crawl {
	transport := &http.Transport{MaxIdleConnsPerHost: s.inFlight}
	return &crawl{settings: s, pool: p, client: &http.Client{Transport: transport}, progress: out}
}

// run fetches the pages and returns an error if the crawl as a whole fails.
func (c *crawl) run(ctx context.Context) error {
	var err error
	if c.first, err = url.Parse(c.settings.url); err != nil {
		return err
	}
	defer c.client.CloseIdleConnections()
	c.started = time.Now()
	defer func() {
		c.took = time.Since(c.started)
		c.progress.clear()
	}()
	front := newFrontier(c.settings.pages, c.first.String())
	for page, err := range worker.Map(ctx, c.pool, front.all(ctx), c.fetch) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.failed++
			if c.firstFailure == nil {
				c.firstFailure = err
			}
		} else {
			c.pages++
			c.bytes += page.bytes
		}
		front.answered(page.links)
		c.progress.show("%d pages, %d failed, %v", c.pages, c.failed, c.pool)
	}
	return ctx.Err()
}

var link = regexp.MustCompile(`(?i)<a\s[^>]*href="([^"]*)"`)

// fetch gets one page. It runs as a task of the pool.
func (c *crawl) fetch(ctx context.Context, address string) (fetched, error) {
	now := c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	for most := c.mostInFlight.Load(); now > most && !c.mostInFlight.CompareAndSwap(most, now); {
		most = c.mostInFlight.Load()
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fetched{}, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return fetched{}, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fetched{}, fmt.Errorf("GET %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return fetched{}, fmt.Errorf("GET %s: %s", address, response.Status)
	}
	page := fetched{address: address, bytes: int64(len(body))}
	for _, found := range link.FindAllSubmatch(body, -1) {
		if to := c.follow(address, string(found[1])); to != "" {
			page.links = append(page.links, to)
		}
	}
	return page, nil
}

// follow returns the whole address of a link; "" if it leads to another server.
func (c *crawl) follow(from, to string) string {
	base, err := url.Parse(from)
	if err != nil {
		return ""
	}
	u, err := base.Parse(to)
	if err != nil || u.Host != c.first.Host || u.Scheme != c.first.Scheme {
		return ""
	}
	u.Fragment = ""
	return u.String()
}

// summary prints the result.
func (c *crawl) summary(w io.Writer) {
	say(w, "%d pages, %d bytes, %d failed, from %s\n", c.pages, c.bytes, c.failed, c.first)
	say(w, "at most %d in flight (of %d)", c.mostInFlight.Load(), c.settings.inFlight)
	if c.pages > 1 { // one page has no rate
		say(w, ", %.1f per second (of %v)", float64(c.pages+c.failed)/c.took.Seconds(), c.settings.rate)
	}
	say(w, ", in %.2f s\n", c.took.Seconds())
}

// verdict returns an error with a hint if pages failed.
func (c *crawl) verdict() error {
	switch {
	case c.failed == 0:
		return nil
	case errors.Is(c.firstFailure, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; does the server run? Without -url there is one", c.firstFailure)
	case errors.Is(c.firstFailure, context.DeadlineExceeded):
		return fmt.Errorf("%w; -timeout gives a page more time", c.firstFailure)
	}
	return fmt.Errorf("%d pages failed, the first: %w", c.failed, c.firstFailure)
}
