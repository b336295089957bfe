// Channel counts the lines of a log file by level, with a queue between readers and
// counters that is bounded by bytes, not by lines. However fast the file is read and
// however long its lines are, the queue never holds more than the budget.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const usage = `Channel counts the lines of a log file by level.

Producers read the file, each a part of it, and send its lines into a channel that
is bounded by bytes: a concurrency limiter has one permit per byte of the budget,
and each line holds as many as it is long until a consumer has counted it. When
the consumers are slower, the producers wait; memory stays within the budget.

Usage: channel [flags]

  go run ./examples/channel
  go run ./examples/channel -file /var/log/syslog -budget 16384 -consumers 1

Without -file, the program generates a log of about 16 MB and removes it at the end.
`

// settings are the values of the flags.
type settings struct {
	file      string
	budget    int
	producers int
	consumers int
	pause     time.Duration
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.StringVar(&s.file, "file", "", "log `file` to read (default: a generated one)")
	flags.IntVar(&s.budget, "budget", 64<<10, "`bytes` that may be queued; no line may be longer")
	flags.IntVar(&s.producers, "producers", 2, "goroutines that read the file, each a part of it")
	flags.IntVar(&s.consumers, "consumers", 2, "goroutines that count")
	flags.DurationVar(&s.pause, "pause", 0, "time that a consumer rests after each 1000 lines, to see the producers wait")
	return func(ctx context.Context, args []string) error {
		if err := s.validate(args); err != nil {
			return err
		}
		return run(ctx, s, streams.Out)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	if s.file == "" {
		if s.file, err = generate(); err != nil {
			return fmt.Errorf("generating a log: %w", err)
		}
		defer func() { _ = os.Remove(s.file) }()
	}
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "budget", PermitLimit: s.budget,
	})
	if err != nil {
		return err
	}
	start := time.Now()
	c, err := count(ctx, s, limiter)
	switch {
	case errors.Is(err, core.ErrPermitsExceedLimit):
		return fmt.Errorf("%w; raise -budget (it is %d)", err, s.budget)
	case err != nil:
		return err
	}
	report(out, s, c, time.Since(start))
	if left := s.budget - limiter.Available(); left != 0 {
		return fmt.Errorf("%d bytes of the budget were not returned", left)
	}
	return nil
}

func (s settings) validate(args []string) error {
	switch {
	case len(args) > 0:
		return program.Usage("unexpected argument %q; a file is named with -file", args[0])
	case s.budget < 1:
		return program.Usage("-budget is %d, want at least 1 byte", s.budget)
	case s.producers < 1 || s.consumers < 1:
		return program.Usage("-producers is %d and -consumers %d, want at least 1 of each", s.producers, s.consumers)
	case s.pause < 0:
		return program.Usage("-pause is %v, want at least 0", s.pause)
	}
	return nil
}

func report(out io.Writer, s settings, c *tally, took time.Duration) {
	_, _ = fmt.Fprintf(out, "%d lines, %d bytes in %v\n", c.lines, c.bytes, took.Round(time.Millisecond))
	for _, level := range levels {
		_, _ = fmt.Fprintf(out, "  %-6s %d\n", level, c.byLevel[level])
	}
	_, _ = fmt.Fprintf(out, "queued at most %d of %d bytes\n", c.peak, s.budget)
}
