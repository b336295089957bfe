// Channel counts the lines of log files by level, with a queue between readers and
// counters that is bounded by bytes, not by lines. However fast the files are read and
// however long their lines are, the queue never holds more than the budget.
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

const usage = `Channel counts the lines of log files by level.

A producer for each file sends its lines into a channel that is bounded by bytes: a concurrency limiter has one permit per byte of the budget,
and each line holds as many as it is long until a consumer has counted it. When
the consumers are slower, the producers wait; memory stays within the budget.

Usage: channel [flags] [file...]

  go run ./examples/channel
  go run ./examples/channel -budget 16384 -consumers 1 /var/log/*.log

Without files, the program generates a log of about 16 MB and removes it at the end.
`

// settings are the values of the flags.
type settings struct {
	files     []string
	budget    int
	consumers int
	pause     time.Duration
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.IntVar(&s.budget, "budget", 64<<10, "`bytes` that may be queued; no line may be longer")
	flags.IntVar(&s.consumers, "consumers", 2, "goroutines that count")
	flags.DurationVar(&s.pause, "pause", 0, "time that a consumer rests after each 1000 lines, to see the producers wait")
	return func(ctx context.Context, args []string) error {
		if err := s.validate(); err != nil {
			return err
		}
		s.files = args
		return run(ctx, s, streams.Out)
	}
}

func run(ctx context.Context, s settings, out io.Writer) error {
	if len(s.files) == 0 {
		file, err := generate()
		if err != nil {
			return fmt.Errorf("generating a log: %w", err)
		}
		defer func() { _ = os.Remove(file) }()
		s.files = []string{file}
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

func (s settings) validate() error {
	switch {
	case s.budget < 1:
		return program.Usage("-budget is %d, want at least 1 byte", s.budget)
	case s.consumers < 1:
		return program.Usage("-consumers is %d, want at least 1", s.consumers)
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
