// Shed shows a process that sheds load while its processors are busy, and one that does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/examples/internal/backend"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const usage = `Shed shows a process that sheds load while its processors are busy.

A server of net/http is asked for more than its processors can do. First it takes
all requests, then it refuses some:

  none       it takes all
  cpu        while it keeps its processors as busy as -busy says
  scheduler  while its goroutines wait for a processor for as long as -wait says
  counted    as cpu, and besides those that are more than -at-once at a time

The server is a process of its own, on the same machine. Requests come at a steady
rate, whether others have been answered or not, and nobody gives up. The latency is that
of the requests that were done, from when they were due: "good" are those that took no
longer than -patience, "late" the others; "busy" is the share of its processors that the
server used.

With -neighbours other processes compute meanwhile, as on a busy machine. If they take
its processors from the server it cannot keep them busy, whatever it has to do: cpu
reads little and sheds nothing, and latency rises as without it. So put a limiter
that counts behind it, which needs no reading to bound what is under way.

Usage: shed [flags]

  go run ./examples/shed
  go run ./examples/shed -neighbours 4
  go run ./examples/shed -times 1.5 -every 100ms none cpu

Flags:
`

// settings are what the flags say.
type settings struct {
	times, busy                       float64
	took, work, every, wait, patience time.Duration
	processors, neighbours, atOnce    int
	be                                string
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.Float64Var(&s.times, "times", 3, "how many `times` what the processors can do is asked of them")
	flags.DurationVar(&s.took, "for", 2*time.Second, "how long to ask")
	flags.DurationVar(&s.work, "work", 5*time.Millisecond, "what a request costs of a processor")
	flags.IntVar(&s.processors, "processors", 1, "`number` of processors that the server uses at most")
	flags.IntVar(&s.neighbours, "neighbours", 0, "`number` of other processes that compute meanwhile")
	flags.Float64Var(&s.busy, "busy", 0.9, "shed if this `share` of the processors is busy")
	flags.DurationVar(&s.wait, "wait", 20*time.Millisecond, "shed if one goroutine in ten waits so long for a processor, or longer")
	flags.IntVar(&s.atOnce, "at-once", 20, "`number` of requests under way at most where they are counted")
	flags.DurationVar(&s.every, "every", 20*time.Millisecond, "the age at which a reading is stale")
	flags.DurationVar(&s.patience, "patience", time.Second, "what is answered within this time is goodput")
	flags.StringVar(&s.be, "serve", "", "be the server, which sheds `by` what is named")
	return func(ctx context.Context, args []string) error {
		switch {
		case !(s.times > 0) || s.took <= 0 || s.work <= 0 || s.every <= 0 || s.patience <= 0:
			return program.Usage("-times %v -for %v -work %v -every %v -patience %v, want more than 0", s.times, s.took, s.work, s.every, s.patience)
		case !(s.busy > 0) || s.wait <= 0:
			return program.Usage("-busy %v -wait %v, want more than 0", s.busy, s.wait)
		case s.processors < 1 || s.atOnce < 1 || s.neighbours < 0:
			return program.Usage("-processors %d -at-once %d -neighbours %d, want at least 1, 1 and 0", s.processors, s.atOnce, s.neighbours)
		case s.be == neighbour:
			return compute(streams)
		case s.be != "":
			return s.serve(ctx, streams)
		case len(args) == 0:
			args = []string{nothing, cpu, scheduler, counted}
		}
		for _, by := range args {
			if _, err := s.limiter(by); err != nil {
				return err
			}
		}
		return s.compare(ctx, streams.Out, args)
	}
}

// compare loads a server for each thing to shed by.
func (s settings) compare(ctx context.Context, w io.Writer, bys []string) error {
	var neighbours []*backend.Process
	defer func() {
		for _, p := range neighbours {
			p.Stop()
		}
	}()
	for range s.neighbours {
		p, err := backend.Spawn(ctx, "-serve", neighbour)
		if err != nil {
			return err
		}
		neighbours = append(neighbours, p)
	}
	rate := s.times * float64(s.processors) / s.work.Seconds()
	fmt.Fprintf(w, "%.0f requests a second, %v of a processor each, on %d\n", rate, s.work, s.processors)
	fmt.Fprintf(w, "%-10s %9s %9s %9s %9s %9s %6s\n", "shed by", "good/s", "late/s", "refused/s", "p50", "p99", "busy")
	for _, by := range bys {
		if err := s.load(ctx, w, by, rate); err != nil {
			return err
		}
	}
	return nil
}

// load loads one server, and prints what became of the requests.
func (s settings) load(ctx context.Context, w io.Writer, by string, rate float64) error {
	b, err := backend.Start(ctx, "-serve", by, "-processors", strconv.Itoa(s.processors), "-work", s.work.String(),
		"-every", s.every.String(), "-busy", fmt.Sprint(s.busy), "-wait", s.wait.String(), "-at-once", strconv.Itoa(s.atOnce))
	if err != nil {
		return err
	}
	defer b.Stop()
	var used float64
	if err := b.Get(ctx, "/used", &used); err != nil { // from here on
		return err
	}
	o := b.Load(ctx, rate, s.took, 0)
	if err := b.Get(ctx, "/used", &used); err != nil {
		return err
	}
	slices.Sort(o.Took)
	good, _ := slices.BinarySearch(o.Took, s.patience+1)
	perSecond := func(n int) float64 { return float64(n) / s.took.Seconds() }
	fmt.Fprintf(w, "%-10s %9.0f %9.0f %9.0f %9v %9v %4.0f %%\n", by, perSecond(good), perSecond(len(o.Took)-good), perSecond(o.Refused),
		quantile(o.Took, 0.5), quantile(o.Took, 0.99), 100*used)
	if o.Refused == 0 && by != nothing && s.times > 1 {
		fmt.Fprintf(w, "%-10s refused nothing: other processes had the processors\n", "")
	}
	return ctx.Err()
}

// quantile returns the latency that a share of all stays within.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(share*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}
