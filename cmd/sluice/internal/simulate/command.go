// Package simulate is the command sluice simulate: it plays recorded traffic through limits in virtual time, and reports
// what they would have done to it.
//
//	logs -> records -> requests, merged and spread over their seconds -> players, one for each variant of the limits -> report
//
// Package accesslog reads the records. Package engine has the plan, which says which limits a request has to pass, and the
// player.
package simulate

import (
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  sluice simulate --limit "100/s burst 200 queue 50" --key ip access.log
  zcat access.log.*.gz | sluice simulate --limit "sliding 1000/1m" --html report.html
  sluice simulate --limit "concurrency 20 queue 10" --fields time=ts,key=user.id,duration=took:ms app.json
  sluice simulate --config limits.yaml access.log
  sluice simulate --limit 100/s --arrivals poisson:120/s,10m
  sluice simulate --limit "concurrency 20 queue 10" --arrivals poisson:40/s,10m --takes 450ms
  sluice simulate --limit "20/s queue 1000 fair-share" --flow client --arrivals poisson:30/s,1m,5`

type flags struct {
	limit, key, flow, config, fields, arrivals, takes, html string
	exact, json                                             bool
	seed                                                    uint64
	top                                                     int
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "simulate {--limit SPEC | --config FILE} [flags] [LOG...]",
		Short: "Report what a limit would have done to recorded traffic",
		Long: `Simulate plays access logs through limits in virtual time. It reports how many requests
the limit would have granted, queued and rejected, and the same for half and twice the limit.
A SPEC is 100/s, "concurrency 20", or several with commas; "sluice help limits" explains it.

A LOG is an access log in the common or combined format, with or without the virtual host
in front; JSON with one object per line; or a log of Envoy, HAProxy (option httplog), AWS
ALB, CloudFront, S3 or IIS. Lines may have a prefix of syslog, docker compose or
Kubernetes. A log may be compressed with gzip, bzip2 or zstd. Several logs are merged by
time; without a LOG, stdin is read. A line with an earlier time than the line before it
counts as if it had that line's time.
Windows start with the first request; calendar windows follow the times of the log.

If a log has whole seconds only, the requests of each second are spread evenly over it,
because they would otherwise all come together; --exact turns that off.

JSON is read as Traefik, Caddy, Envoy and nginx (with the names of its variables) write it,
or as --fields says: key=user.id reads the member id of the object user, and duration=took:ms
reads the member took in milliseconds (or us, ns) instead of seconds. A time is RFC 3339 or
a Unix time.

A request holds its permit of a concurrency limit for its duration, if the log has it.

Without a log, --arrivals makes synthetic requests (GET /): KIND is poisson (at random),
constant (at equal intervals), bursts (all of a burst together) or day (the curve of a day,
with RATE as its mean). Append ,20 for 20 clients: the second sends half as many requests
as the first, the third a third, and so on. --takes sets their duration.

The key ip is the client's IPv4 address, or the /64 of its IPv6 address, as in the proxy;
the key client is the client as logged; the key "key" is the field key of --fields.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.CheckStdout("open /dev/null for writing, as > does, to discard the report"); err != nil {
				return err
			}
			r, err := f.simulate(args, os.Stdin)
			if err != nil {
				return err
			}
			return f.write(r, os.Stdout)
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.limit, "limit", "", "simulate `SPEC`, such as \"100/s burst 200 queue 50\"")
	s.StringVar(&f.key, "key", "", "give each `KEY` a limit of its own: ip, client, user, host, method, path, agent, referer, key (default: one limit for all)")
	s.StringVar(&f.flow, "flow", "", "make each `KEY` a flow; a limit with fair-share serves flows in turn; values as for --key")
	s.StringVarP(&f.config, "config", "c", "", "simulate the limits and routes of the proxy configuration `FILE`")
	s.StringVar(&f.fields, "fields", "", "find fields in JSON at `NAME=PATH,...`, such as time=ts,key=user.id; NAME is time, duration, status, key, client, user, host, method, path, referer, agent or request")
	s.BoolVar(&f.exact, "exact", false, "do not spread requests over each second if the log has whole seconds")
	s.StringVar(&f.arrivals, "arrivals", "", "simulate synthetic requests at `KIND:RATE,TIME`: poisson:100/s,10m, constant:100/s,10m, bursts:50/10s,10m or day:100/s,24h")
	s.StringVar(&f.takes, "takes", "", "let each synthetic request take `TIME`: 450ms, or exponential:450ms for random times with that mean (default: no time)")
	s.Uint64Var(&f.seed, "seed", 1, "seed synthetic requests with `NUMBER`; the same seed makes the same requests")
	s.IntVar(&f.top, "top", 10, "list the `N` keys with the most rejections; 0 lists none")
	s.BoolVar(&f.json, "json", false, "print the report as JSON")
	s.StringVar(&f.html, "html", "", "write an HTML page with charts to `FILE`")
	_ = c.RegisterFlagCompletionFunc("key", cobra.FixedCompletions(
		[]string{"ip", "client", "user", "host", "method", "path", "agent", "referer", "key"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// plan returns what the requests have to pass.
func (f *flags) plan() (*engine.Plan, error) {
	switch {
	case f.limit != "" && f.config != "":
		return nil, cli.Usage("use --limit or --config, not both")
	case f.config != "" && f.key != "":
		return nil, cli.Usage("--key does not work with --config; its policies have their own keys")
	case f.config != "" && f.flow != "":
		return nil, cli.Usage("--flow does not work with --config; its policies have their own flows")
	case f.config != "":
		c, err := config.Read(f.config)
		if err != nil {
			return nil, err
		}
		return configured(c)
	case f.limit == "":
		return nil, cli.Usage("no limit; use --limit SPEC, such as 100/s, or --config FILE")
	}
	limits, err := cli.ParseLimits(f.limit, "requests")
	if err != nil {
		return nil, cli.Usage("--limit %q %w", f.limit, err)
	}
	key := f.key
	if key == "" && slices.ContainsFunc(strings.Split(f.fields, ","), func(pair string) bool { return strings.HasPrefix(pair, "key=") }) {
		key = "key"
	}
	for _, l := range limits {
		switch l.Kind {
		case spec.Blocked:
			return nil, cli.Usage("--limit %q rejects every request, so there is nothing to simulate; use a limit such as 100/s", f.limit)
		case spec.Paused:
			return nil, cli.Usage("--limit %q grants nothing, so there is nothing to simulate; use a limit such as 100/s", f.limit)
		}
	}
	p, err := engine.Of(limits, key)
	if err != nil {
		return nil, cli.Usage("--key %w", err)
	}
	if f.flow == "" {
		return p, nil
	}
	if !slices.ContainsFunc(limits, func(l spec.Limit) bool { return l.Order == core.FairShare }) {
		return nil, cli.Usage("--flow requires a limit with fair-share, such as \"%s queue 100 fair-share\"", f.limit)
	}
	if err := p.ByFlow(f.flow); err != nil {
		return nil, cli.Usage("--flow %w", err)
	}
	return p, nil
}

// result is the outcome of a simulation.
type result struct {
	plan                 *engine.Plan
	what                 string // the limit or the file, as the user wrote it
	base                 int64  // Unix nanoseconds of the first request
	end                  int64  // end of the last event, since the first request
	lines                accesslog.Count
	times                engine.Times
	synthetic, durations bool
	spread               int // requests that are not at the time that their log has
	main, half, twice    engine.Stats
}

func (f *flags) simulate(names []string, stdin io.Reader) (*result, error) {
	p, err := f.plan()
	if err != nil {
		return nil, err
	}
	if f.top < 0 {
		return nil, cli.Usage("--top %d is negative; use 0 or more", f.top)
	}
	r := &result{plan: p, what: f.limit}
	if f.config != "" {
		r.what = f.config
	}
	r.main.PerKey = true
	if f.html != "" {
		r.main.Series = engine.NewSeries(time.Second)
	}
	if _, err := accesslog.New(f.fields); err != nil {
		return nil, cli.Usage("--fields %w", err)
	}
	if f.arrivals != "" {
		if len(names) > 0 {
			return nil, cli.Usage("use --arrivals or the log %q, not both", names[0])
		}
		a, err := engine.ParseArrivals(f.arrivals, f.seed)
		if err != nil {
			return nil, cli.Usage("--arrivals %w", err)
		}
		if a, err = a.Taking(f.takes); err != nil {
			return nil, cli.Usage("--takes %w", err)
		}
		r.synthetic, r.durations = true, a.HaveDurations()
		r.play(a.Requests(p))
	} else if f.takes != "" {
		return nil, cli.Usage("--takes requires --arrivals; a log has its own durations")
	} else if err := f.playLogs(r, names, stdin); err != nil {
		return nil, err
	}
	return r, nil
}

// playLogs plays the logs, or stdin if there are none.
func (f *flags) playLogs(r *result, names []string, stdin io.Reader) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	logs := make([]*log, len(names))
	all := make([]iter.Seq[engine.Request], len(names))
	for i, name := range names {
		lines, err := accesslog.New(f.fields)
		if err != nil {
			return err
		}
		logs[i] = &log{Log: lines, name: name}
		all[i] = logs[i].requests(stdin, r.plan)
	}
	requests := engine.Merge(all, func() bool { return failure(logs) != nil })
	if !f.exact {
		requests = engine.Spread(requests, &r.spread)
	}
	r.play(requests)
	for i, l := range logs {
		names[i] = l.name
		r.lines.Add(l.Count)
		r.times.Add(l.times)
	}
	r.durations = r.lines.Durations > 0
	if r.lines.Requests == 0 && r.lines.Bad == 0 && failure(logs) == nil {
		return fmt.Errorf("there are no requests in %s", strings.Join(names, ", "))
	}
	return failure(logs)
}

// failure returns the error of the first log that has one.
func failure(logs []*log) error {
	for _, l := range logs {
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

const batchSize = 2048

// play plays the requests through the limits, through their halves, and through their doubles, concurrently.
func (r *result) play(requests iter.Seq[engine.Request]) {
	main := engine.NewPlayer(&r.main, engine.Scaled(1))
	players := []*engine.Player{main, engine.NewPlayer(&r.half, engine.Scaled(0.5)), engine.NewPlayer(&r.twice, engine.Scaled(2))}
	batch := make([]engine.Request, 0, batchSize)
	playBatch := func() {
		var all sync.WaitGroup
		for _, p := range players {
			p.Zero = r.base
			all.Go(func() {
				for i := range batch {
					p.Play(&batch[i])
				}
			})
		}
		all.Wait()
		batch = batch[:0]
	}
	for q := range engine.FromFirst(requests, &r.base) {
		if batch = append(batch, q); len(batch) == batchSize {
			playBatch()
		}
	}
	playBatch()
	for _, p := range players {
		p.Finish()
	}
	r.end = main.Finish()
}
