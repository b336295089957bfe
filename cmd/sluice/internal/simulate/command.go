// Package simulate tells what limits would have done to traffic that was recorded, in virtual time.
package simulate

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  sluice simulate --limit "100/s burst 200 queue 50" --key ip access.log
  zcat access.log.*.gz | sluice simulate --limit "sliding 1000/1m" --html report.html
  sluice simulate --limit "concurrency 20 queue 10" --fields time=ts,key=client,duration=took app.json
  sluice simulate --config limits.yaml access.log
  sluice simulate --limit 100/s --arrivals poisson:120/s,10m`

type flags struct {
	limit, key, config, fields, arrivals, html string
	json                                       bool
	seed                                       uint64
	top                                        int
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "simulate {--limit SPEC | --config FILE} [flags] [LOG...]",
		Short: "Tell what a limit would have done to recorded traffic",
		Long: `Simulate plays access logs through limits, in virtual time, and tells what would have
been granted, queued and rejected, and what half and twice the limit would have done.

A LOG is an access log in the common or the combined format, or has a JSON object a
line; it may be compressed by gzip. Several merge by time; without any it reads
standard input. A late line counts at the newest instant seen. Windows are anchored at
the first request. Without a duration a concurrency limit is held for no time.

A request that waits does so as long as it takes. The waits that are told are those of
requests that waited and were granted.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.simulate(c.Context(), args, os.Stdin)
			if err != nil {
				return err
			}
			return f.write(r, os.Stdout)
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.limit, "limit", "", "the limit: `SPEC`, such as \"100/s burst 200 queue 50\"")
	s.StringVar(&f.key, "key", "", "a limit for each `KEY`: ip, user, host, method, path, agent, referer, key (default: one for all)")
	s.StringVar(&f.config, "config", "", "the limits and routes of a proxy, from `FILE`")
	s.StringVar(&f.fields, "fields", "", "where JSON has what: `NAME=PATH,...`; names are time, key, duration, client, status, method, path, ...")
	s.StringVar(&f.arrivals, "arrivals", "", "make requests up: `KIND:RATE,TIME` as poisson:100/s,10m, constant:100/s,10m, bursts:50/10s,10m")
	s.Uint64Var(&f.seed, "seed", 1, "the random `NUMBER` that made-up requests begin with")
	s.IntVar(&f.top, "top", 10, "tell of `N` keys")
	s.BoolVar(&f.json, "json", false, "print the figures as JSON")
	s.StringVar(&f.html, "html", "", "write a page with plots to `FILE`")
	return c
}

// plan returns what the requests have to pass.
func (f *flags) plan() (*plan, error) {
	switch {
	case f.limit != "" && f.config != "":
		return nil, cli.Usage("--limit and --config: want one of them")
	case f.config != "" && f.key != "":
		return nil, cli.Usage("--key and --config: its policies have keys of their own")
	case f.config != "":
		c, err := config.Read(f.config)
		if err != nil {
			return nil, err
		}
		return configured(c)
	case f.limit == "":
		return nil, cli.Usage("no --limit and no --config")
	}
	l, err := spec.Parse(f.limit)
	if err != nil {
		return nil, cli.Usage("--limit %s", strings.TrimPrefix(err.Error(), "spec: "))
	}
	key := f.key
	if key == "" && saysKey(f.fields) {
		key = "key"
	}
	return single(l, key)
}

// result is what came of it.
type result struct {
	plan              *plan
	what              string // the limit, for a person
	base              int64  // Unix nanoseconds of the first request
	end               int64  // of the last event, since the first request
	bad               int
	main, half, twice stats
}

func (f *flags) simulate(ctx context.Context, logs []string, stdin io.Reader) (*result, error) {
	p, err := f.plan()
	if err != nil {
		return nil, err
	}
	if f.top < 0 {
		return nil, cli.Usage("--top %d, want at least 0", f.top)
	}
	batches, err := f.batches(ctx, logs, stdin, p)
	if err != nil {
		return nil, err
	}
	r := &result{plan: p, what: f.limit}
	if f.config != "" {
		r.what = f.config
	}
	r.main.perKey = true
	if f.html != "" {
		r.main.series = newSeries()
	}
	err = r.play(batches)
	return r, err
}

// batches returns the requests, from logs or made up.
func (f *flags) batches(ctx context.Context, logs []string, stdin io.Reader, p *plan) (iter.Seq[batch], error) {
	json, err := parseFields(f.fields)
	if err != nil {
		return nil, err
	}
	if f.arrivals != "" {
		if len(logs) > 0 {
			return nil, cli.Usage("--arrivals and %q: want one of them", logs[0])
		}
		a, err := parseArrivals(f.arrivals, f.seed)
		if err != nil {
			return nil, err
		}
		return a.requests(p), nil
	}
	if len(logs) == 0 {
		logs = []string{"-"}
	}
	read1 := make([]<-chan batch, len(logs))
	for i, name := range logs {
		var in parser = &either{json: json}
		if f.fields != "" {
			in = json
		}
		read1[i] = read(ctx, name, stdin, in, p)
	}
	return merge(read1), nil
}

// play plays the requests through the limits, through their halves, and through their doubles, at once.
func (r *result) play(batches iter.Seq[batch]) error {
	players := []*player{
		{told: &r.main, factor: 1}, {told: &r.half, factor: 0.5}, {told: &r.twice, factor: 2},
	}
	var w sync.WaitGroup
	feeds := make([]chan []request, len(players))
	for i, p := range players {
		feeds[i] = make(chan []request, 4)
		w.Go(func() {
			for requests := range feeds[i] {
				for j := range requests {
					p.play(&requests[j])
				}
			}
			p.finish()
		})
	}
	var errs []error
	first, newest := true, int64(0)
	for b := range batches {
		r.bad += b.bad
		if b.err != nil {
			errs = append(errs, b.err)
			break
		}
		for i := range b.requests {
			q := &b.requests[i]
			if first {
				r.base, first = q.at, false
			}
			q.at = max(q.at-r.base, newest)
			newest = q.at
		}
		for _, f := range feeds {
			f <- b.requests
		}
	}
	for _, f := range feeds {
		close(f)
	}
	w.Wait()
	r.end = players[0].now
	return errors.Join(errs...)
}
