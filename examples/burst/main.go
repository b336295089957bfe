// Burst shows how each of the four limiters shapes the same burst of requests, second by
// second.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/examples/burst/internal/shape"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const usage = `Burst sends the same burst of 30 requests, all at once, to each of the four
limiters, and draws what they made of it, second by second: how many requests
were granted in that second, how many were waiting at its end, and how many were
rejected. All four admit 5 requests per second on average and let 20 wait.

Usage: burst [-fast]

  go run ./examples/burst

It takes 6 seconds, or with -fast a tenth of that: then a "second" is 100 ms.
`

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	fast := flags.Bool("fast", false, "ten times as fast")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		second := time.Second
		if *fast {
			second /= 10
		}
		return show(ctx, second, s.Out)
	}
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
