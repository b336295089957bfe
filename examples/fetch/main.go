// Fetch crawls a web server, at most so many pages at once and so many per second.
//
// Without -url it serves linked pages on the loopback interface itself and crawls those.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

const usage = `fetch crawls a web server: from one page it follows the links that stay on the
server, each page once, at most -n pages at once and -rate pages per second.

A concurrency limiter and a token bucket, chained, are the pool's limiter: each
request holds a lease of both while it runs. worker.Map yields the pages in order.

Without -url it starts a server on the loopback interface, with pages that link
to each other, and crawls that. Progress is on standard error, if that is a
terminal; the summary is on standard output. The exit code is 1 if a page failed.

    go run ./examples/fetch
    go run ./examples/fetch -n 2 -rate 20 -pages 30
    go run ./examples/fetch -url http://localhost:8080/ -pages 500

`

type settings struct {
	url     string
	atOnce  int
	rate    int
	pages   int
	timeout time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("bad usage")

func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	s, err := parse(args, stdout, stderr)
	if err != nil {
		return err
	}
	if s.url == "" {
		site, err := serve(s.pages)
		if err != nil {
			return fmt.Errorf("starting a server of its own: %w; -url names one that is there", err)
		}
		defer func() {
			if err := site.close(); err != nil {
				say(stderr, "fetch: the server did not stop: %v\n", err)
			}
		}()
		s.url = site.url
	}
	pool, err := newPool(s)
	if err != nil {
		return err
	}
	c := newCrawl(s, pool, newProgress(stderr))
	err = c.run(ctx)
	// The tasks' own errors were reported page by page.
	if closing := pool.Close(ctx); err == nil {
		err = closing
	}
	c.summary(stdout)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	return c.verdict()
}

// say writes to a person; there is nobody to tell if that fails.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// newPool returns a pool that starts so many tasks per second and runs so many at once.
func newPool(s settings) (*worker.Pool, error) {
	atOnce, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "at once", PermitLimit: s.atOnce, QueueLimit: math.MaxInt,
	})
	if err != nil {
		return nil, err
	}
	perSecond, err := core.NewTokenBucket(core.TokenBucketOptions{
		Name: "per second", TokenLimit: 1, TokensPerPeriod: 1,
		ReplenishmentPeriod: time.Second / time.Duration(s.rate), QueueLimit: math.MaxInt,
	})
	if err != nil {
		return nil, err
	}
	both, err := core.Chain(atOnce, perSecond)
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Options{Limiter: both})
}

func parse(args []string, stdout, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.url, "url", "", "page to begin at; its links to other servers are not followed")
	flags.IntVar(&s.atOnce, "n", 8, "pages at once, at most")
	flags.IntVar(&s.rate, "rate", 50, "pages per second, at most")
	flags.IntVar(&s.pages, "pages", 120, "pages in all, at most")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "time for one page")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		say(stdout, "%s", usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return s, err
	}
	faults := []error{err}
	if err == nil {
		faults = s.validate(flags.Args())
	}
	if err := errors.Join(faults...); err != nil {
		say(stderr, "fetch: %v\nfetch -h explains.\n", err)
		return s, errUsage
	}
	return s, nil
}

func (s settings) validate(rest []string) (faults []error) {
	if len(rest) > 0 {
		faults = append(faults, fmt.Errorf("%q: the page to begin at goes with -url", rest[0]))
	}
	if s.url != "" {
		if u, err := url.Parse(s.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("-url = %q, want a whole address, as http://localhost:8080/", s.url))
		}
	}
	for _, f := range []struct {
		name  string
		value int
		most  int
	}{{"n", s.atOnce, math.MaxInt}, {"rate", s.rate, int(time.Second)}, {"pages", s.pages, math.MaxInt}} {
		if f.value < 1 {
			faults = append(faults, fmt.Errorf("-%s = %d, want at least 1", f.name, f.value))
		} else if f.value > f.most {
			faults = append(faults, fmt.Errorf("-%s = %d, want at most %d", f.name, f.value, f.most))
		}
	}
	if s.timeout <= 0 {
		faults = append(faults, fmt.Errorf("-timeout = %v, want above 0", s.timeout))
	}
	return faults
}
