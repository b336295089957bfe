// Shed shows a process that sheds load while its processors are busy, and one that does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/burn"
	"github.com/sluice-go/sluice/internal/program"
)

const usage = `Shed shows a process that sheds load while its processors are busy.

Requests come at a steady rate, more of them than the processors can do, and each keeps
one busy for a while. First a limiter refuses them while the process uses as much of
its processors as -above says; then all are taken. Without it they pile up, and each
takes longer than the one before; with it, those that are taken are done in time.

The process uses as many processors as -processors says. The probe cpu sees this process
alone: if others take the processors from it, it may never read enough to shed.

Usage: shed [flags]

  go run ./examples/shed
  go run ./examples/shed -times 3 -for 10s -probe scheduler

Flags:
`

// settings are what the flags say.
type settings struct {
	times, above float64
	took, work   time.Duration
	probe        string
	processors   int
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.Float64Var(&s.times, "times", 3, "how many `times` what the processors can do is asked of them")
	flags.Float64Var(&s.above, "above", 0, "shed at this reading; 0: nine tenths of the processors, or 20 ms")
	flags.DurationVar(&s.took, "for", 3*time.Second, "how long to ask")
	flags.DurationVar(&s.work, "work", 5*time.Millisecond, "what a request costs of a processor")
	flags.StringVar(&s.probe, "probe", "cpu", "what to watch: cpu, or scheduler, the time that goroutines wait for a processor")
	flags.IntVar(&s.processors, "processors", 1, "`number` of processors that this process uses at most")
	return func(ctx context.Context, _ []string) error {
		if s.processors < 1 {
			return program.Usage("-processors %d, want at least 1", s.processors)
		}
		runtime.GOMAXPROCS(s.processors)
		if s.times <= 0 || s.took <= 0 || s.work <= 0 {
			return program.Usage("-times %v -for %v -work %v, want more than 0", s.times, s.took, s.work)
		}
		options, err := s.shed()
		if err != nil {
			return err
		}
		shed, err := adaptive.NewShed(options)
		if err != nil {
			return program.Usage("%w", err)
		}
		defer shed.Close()
		return s.compare(ctx, streams.Out, shed)
	}
}

// shed returns the terms of the limiter.
func (s settings) shed() (adaptive.ShedOptions, error) {
	o := adaptive.ShedOptions{Name: s.probe, Above: s.above, Every: 20 * time.Millisecond}
	switch s.probe {
	case "cpu":
		o.Probe = adaptive.CPU()
		if o.Above == 0 {
			o.Above = 0.9
		}
	case "scheduler":
		o.Probe = adaptive.SchedulerLatency(0.9)
		if o.Above == 0 {
			o.Above = 0.02
		}
	default:
		return o, program.Usage("-probe %q, want cpu or scheduler", s.probe)
	}
	return o, nil
}

// compare asks with the limiter and without.
func (s settings) compare(ctx context.Context, w io.Writer, shed core.Limiter) error {
	burn.CPU(s.work)
	dropped := 0
	fmt.Fprintf(w, "%-8s %8s %8s %8s %8s\n", "", "done", "shed", "p50", "p99")
	for _, side := range []struct {
		name    string
		limiter core.Limiter
	}{{"with", shed}, {"without", core.Unlimited()}} {
		o := s.ask(ctx, side.limiter)
		if err := ctx.Err(); err != nil {
			return err
		}
		slices.Sort(o.took)
		fmt.Fprintf(w, "%-8s %8d %8d %8v %8v\n", side.name, len(o.took), o.shed, o.quantile(0.5), o.quantile(0.99))
		if side.limiter == shed {
			dropped = o.shed
		}
	}
	if dropped == 0 {
		fmt.Fprintln(w, "nothing was shed: other processes had the processors, or -times is too low")
	}
	return nil
}

// outcome is what became of the requests.
type outcome struct {
	took []time.Duration // from request to answer, sorted
	shed int
}

func (o outcome) quantile(share float64) time.Duration {
	if len(o.took) == 0 {
		return 0
	}
	return o.took[int(share*float64(len(o.took)-1))].Round(100 * time.Microsecond)
}

// ask asks at a steady rate, and waits until all is done.
func (s settings) ask(ctx context.Context, l core.Limiter) outcome {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
		o  outcome
	)
	request := func(asked time.Time) {
		lease := l.TryAcquire(1)
		defer lease.Release()
		if lease.Acquired() {
			runtime.Gosched() // those who came meanwhile are decided on first
			burn.CPU(s.work)
		}
		mu.Lock()
		defer mu.Unlock()
		if lease.Acquired() {
			o.took = append(o.took, time.Since(asked))
		} else {
			o.shed++
		}
	}
	rate := s.times * float64(runtime.GOMAXPROCS(0)) / s.work.Seconds()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	begin := time.Now()
	for asked := 0; ctx.Err() == nil; <-ticker.C {
		// This goroutine waits for a processor, too: what was due meanwhile is asked now, and
		// is late by that.
		since := time.Since(begin)
		for ; float64(asked) < rate*min(since, s.took).Seconds(); asked++ {
			due := begin.Add(time.Duration(float64(asked) / rate * float64(time.Second)))
			wg.Go(func() { request(due) })
		}
		if since >= s.took {
			break
		}
	}
	wg.Wait()
	return o
}
