// Client crawls a server that limits it, twice: with a transport that obeys the server, and
// with one that just tries again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/httplimit"
)

const text = `client crawls a server that says 429 with Retry-After, once obeying it and once not

usage: client [flags]

The server takes -burst pages in each window of a second. The polite crawler's
Transport holds its requests back for as long as the server says, and sends again
what was refused. The rude one tries again at once, -pause apart.`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	pages := flags.Int("pages", 60, "pages to fetch")
	atOnce := flags.Int("n", 4, "requests at once")
	burst := flags.Int("burst", 20, "pages that the server gives in a second")
	pause := flags.Duration("pause", 5*time.Millisecond, "how long the rude crawler waits after a refusal")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		if *pages < 1 || *atOnce < 1 || *pause <= 0 {
			return program.Usage("-pages, -n and -pause want more than 0")
		}
		for _, c := range []crawler{
			{name: "rude", pause: *pause},
			{name: "polite", obey: true},
		} {
			c.pages, c.atOnce, c.out = *pages, *atOnce, s.Out
			if err := c.run(ctx, *burst); err != nil {
				return err
			}
		}
		return nil
	}
}

// crawler fetches pages until it has them all.
type crawler struct {
	name   string
	obey   bool
	pause  time.Duration
	pages  int
	atOnce int
	out    io.Writer
}

// site is a server that counts what it is asked.
type site struct {
	*httptest.Server

	asked, refused atomic.Int64
}

func newSite(burst int) (*site, error) {
	window, err := core.NewFixedWindow(core.FixedWindowOptions{Name: "pages", PermitLimit: burst, Window: time.Second})
	if err != nil {
		return nil, program.Usage("%w", err)
	}
	s := new(site)
	limits, err := httplimit.New(httplimit.Options{
		Global: &httplimit.Policy{Limiter: httplimit.Shared(window)},
		OnRejected: func(http.ResponseWriter, *http.Request, *httplimit.Rejection) {
			s.refused.Add(1)
		},
	})
	if err != nil {
		return nil, err
	}
	limited := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "this is", r.URL.Path)
	}))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		limited.ServeHTTP(w, r)
	}))
	return s, nil
}

func (c crawler) run(ctx context.Context, burst int) error {
	s, err := newSite(burst)
	if err != nil {
		return err
	}
	defer s.Close()
	transport, err := c.transport(s.Client().Transport)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}
	start := time.Now()
	next := make(chan int)
	errs := make(chan error, c.atOnce)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range c.atOnce {
		wg.Go(func() {
			for page := range next {
				if err := c.fetch(ctx, client, fmt.Sprintf("%s/%d", s.URL, page)); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
feed:
	for page := range c.pages {
		select {
		case next <- page:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	close(errs)
	if err = <-errs; err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.out, "%-7s %d pages with %d requests, %d of them refused, in %.1f s\n",
		c.name, c.pages, s.asked.Load(), s.refused.Load(), time.Since(start).Seconds())
	return nil
}

func (c crawler) transport(base http.RoundTripper) (http.RoundTripper, error) {
	if !c.obey {
		return base, nil
	}
	return httplimit.NewTransport(httplimit.TransportOptions{Base: base, HonorRetryAfter: true, Retries: 10})
}

// fetch asks for a page until it gets it.
func (c crawler) fetch(ctx context.Context, client *http.Client, url string) error {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		switch response.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusTooManyRequests:
			if c.obey {
				return errors.New("the server refused, however often it was obeyed")
			}
		default:
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		pause := time.NewTimer(c.pause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}
