// Burst shows how each of the four limiters shapes the same burst of requests, second by
// second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/sluice-go/sluice/examples/burst/internal/shape"
)

const usage = `Burst sends the same burst of 30 requests, all at once, to each of the four
limiters, and draws what they made of it, second by second: how many requests
were granted in that second, how many were waiting at its end, and how many were
rejected. All four admit 5 requests per second on average and let 20 wait.

Usage: burst [-fast]

  go run ./examples/burst

It takes 6 seconds, or with -fast a tenth of that: then a "second" is 100 ms.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program; it returns its exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("burst", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		_, _ = fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	fast := flags.Bool("fast", false, "ten times as fast")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(errs, "burst: what is %q? It takes no arguments; try burst -h\n", flags.Arg(0))
		return 2
	}
	second := time.Second
	if *fast {
		second /= 10
	}
	if err := show(ctx, second, out); err != nil {
		_, _ = fmt.Fprintln(errs, "burst:", err)
		return 1
	}
	return 0
}

// seconds is how long it takes until the slowest has served all.
const seconds = 6

func show(ctx context.Context, second time.Duration, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%d requests at once to each limiter; this takes %v.\n", shape.Requests, seconds*second)
	shapes, err := shape.Measure(ctx, second, seconds)
	if err != nil {
		return err
	}
	for _, s := range shapes {
		if err := s.Draw(out); err != nil {
			return fmt.Errorf("drawing: %w", err)
		}
	}
	return nil
}
