// Fetch crawls a web server, with a limit on concurrent pages and one on pages per second.
//
// Without -url, it serves linked pages on the loopback interface and crawls those.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/spec"
	"github.com/sluice-go/sluice/worker"
)

const usage = `fetch crawls a web server: from one page it follows the links that stay on the
server, each page once, with at most -n requests in flight and at most -rate
requests per second.

A concurrency limiter and a token bucket, chained, are the pool's limiter: each
request holds a lease of both while it runs. worker.Map yields the pages in order.

Without -url it starts a server on the loopback interface, with pages that link
to each other, and crawls that. It writes progress to stderr, if that is a
terminal, and the summary to stdout. The exit code is 1 if a page failed.

    go run ./examples/fetch
    go run ./examples/fetch -n 2 -rate 20/s -pages 30
    go run ./examples/fetch -url http://localhost:8080/ -pages 500

`

type settings struct {
	url      string
	inFlight int
	rate     spec.Limit
	pages    int
	timeout  time.Duration
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	s := settings{rate: spec.Limit{Kind: spec.TokenBucket, Permits: 50, Per: time.Second, Burst: 1}}
	flags.StringVar(&s.url, "url", "", "start page; links to other servers are not followed")
	flags.IntVar(&s.inFlight, "n", 8, "max requests in flight")
	flags.TextVar(&s.rate, "rate", s.rate, "max request rate: 50/s burst 1, 100/m")
	flags.IntVar(&s.pages, "pages", 120, "max pages in all")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "time for one page")
	return func(ctx context.Context, args []string) error {
		if err := errors.Join(s.validate(args)...); err != nil {
			return program.Usage("%w", err)
		}
		return run(ctx, s, streams)
	}
}

func run(ctx context.Context, s settings, streams program.Streams) error {
	if s.url == "" {
		site, err := serve(s.pages)
		if err != nil {
			return fmt.Errorf("starting a server of its own: %w; -url names one that is there", err)
		}
		defer func() {
			if err := site.close(); err != nil {
				say(streams.Err, "fetch: the server did not stop: %v\n", err)
			}
		}()
		s.url = site.url
	}
	pool, err := newPool(s)
	if err != nil {
		return err
	}
	c := newCrawl(s, pool, newProgress(streams.Err))
	err = c.run(ctx)
	// Errors of single pages were reported as they occurred.
	if closing := pool.Close(ctx); err == nil {
		err = closing
	}
	c.summary(streams.Out)
	if err != nil {
		return err
	}
	return c.verdict()
}

// say writes a message for the user. Its error is ignored, because there is nowhere to report it.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// newPool returns a pool with both limits: tasks started per second, and concurrent tasks.
func newPool(s settings) (*worker.Pool, error) {
	inFlight, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "in flight", PermitLimit: s.inFlight,
	})
	if err != nil {
		return nil, err
	}
	s.rate.Queue = math.MaxInt
	often, err := s.rate.New("rate")
	if err != nil {
		return nil, err
	}
	both, err := core.Chain(inFlight, often)
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Options{Limiter: both})
}

func (s settings) validate(rest []string) (faults []error) {
	if len(rest) > 0 {
		faults = append(faults, fmt.Errorf("%q: pass the start page with -url", rest[0]))
	}
	if s.url != "" {
		if u, err := url.Parse(s.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("-url = %q, want a whole address, as http://localhost:8080/", s.url))
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"n", s.inFlight}, {"pages", s.pages}} {
		if f.value < 1 {
			faults = append(faults, fmt.Errorf("-%s = %d, want at least 1", f.name, f.value))
		}
	}
	if s.rate.Kind == spec.Concurrency {
		faults = append(faults, fmt.Errorf("-rate = %v, want a rate such as 50/s; -n bounds the requests in flight", s.rate))
	}
	if s.timeout <= 0 {
		faults = append(faults, fmt.Errorf("-timeout = %v, want above 0", s.timeout))
	}
	return faults
}
