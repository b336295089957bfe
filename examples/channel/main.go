// Channel counts the lines of a log file by level, with a queue between readers and
// counters that is bounded by bytes, not by lines: however fast the file is read and
// however long its lines are, no more than the budget is ever queued.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"time"

	"github.com/sluice-go/sluice/core"
)

const usage = `Channel counts the lines of a log file by level.

Producers read the file, each a part of it, and send its lines into a channel that
is bounded by bytes: a concurrency limiter has one permit per byte of the budget,
and each line holds as many as it is long until a consumer has counted it. When
the consumers are slower, the producers wait; memory stays within the budget.

Usage: channel [flags]

  go run ./examples/channel
  go run ./examples/channel -file /var/log/syslog -budget 16384 -consumers 1

Without -file a log of some 16 MB is generated, and removed at the end.

Flags:
`

// settings are what the flags say.
type settings struct {
	file      string
	budget    int
	producers int
	consumers int
	pause     time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "channel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.file == "" {
		if s.file, err = generate(); err != nil {
			return fmt.Errorf("generating a log: %w", err)
		}
		defer func() { _ = os.Remove(s.file) }()
	}
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "budget", PermitLimit: s.budget, QueueLimit: math.MaxInt,
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	c, err := count(ctx, s, limiter)
	switch {
	case errors.Is(err, core.ErrPermitsExceedLimit):
		return fmt.Errorf("%w; raise -budget (it is %d)", err, s.budget)
	case err != nil:
		return err
	}
	report(s, c, time.Since(begin))
	if left := s.budget - limiter.Available(); left != 0 {
		return fmt.Errorf("%d bytes of the budget were not given back", left)
	}
	return nil
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("channel", flag.ContinueOnError)
	f.StringVar(&s.file, "file", "", "log `file` to read (default: a generated one)")
	f.IntVar(&s.budget, "budget", 64<<10, "`bytes` that may be queued; no line may be longer")
	f.IntVar(&s.producers, "producers", 2, "goroutines that read the file, each a part of it")
	f.IntVar(&s.consumers, "consumers", 2, "goroutines that count")
	f.DurationVar(&s.pause, "pause", 0, "time that a consumer rests after each 1000 lines, to see the producers wait")
	f.Usage = func() {
		_, _ = fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q; a file is named with -file (see -h)", f.Arg(0))
	case s.budget < 1:
		return s, fmt.Errorf("-budget is %d, want at least 1 byte", s.budget)
	case s.producers < 1 || s.consumers < 1:
		return s, fmt.Errorf("-producers is %d and -consumers %d, want at least 1 of each", s.producers, s.consumers)
	case s.pause < 0:
		return s, fmt.Errorf("-pause is %v, want at least 0", s.pause)
	}
	return s, nil
}

func report(s settings, c *tally, took time.Duration) {
	fmt.Printf("%d lines, %d bytes in %v\n", c.lines, c.bytes, took.Round(time.Millisecond))
	for _, level := range levels {
		fmt.Printf("  %-6s %d\n", level, c.byLevel[level])
	}
	fmt.Printf("queued at most %d of %d bytes\n", c.peak, s.budget)
}
