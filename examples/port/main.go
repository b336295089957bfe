// Port is a program of x/time/rate, ported. What it was stands beside what it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
)

const text = `port sends letters at a rate, as a program of golang.org/x/time/rate would

usage: port [flags]`

func main() { program.Main(text, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	rate := flags.Int("rate", 50, "letters per second")
	burst := flags.Int("burst", 3, "letters at once")
	letters := flags.Int("letters", 10, "how many to send")
	return func(ctx context.Context, _ []string) error {
		// limiter := rate.NewLimiter(50, 3)
		limiter, err := core.NewTokenBucket(core.PerSecond(*rate, *burst))
		if err != nil {
			return program.Usage("%w", err)
		}
		start := time.Now()
		for i := range *letters {
			// err := limiter.Wait(ctx)
			if _, err := limiter.Acquire(ctx, 1); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(s.Out, "%6s  letter %d\n", time.Since(start).Round(time.Millisecond), i+1)
		}

		// if !limiter.Allow() { … limiter.Reserve().Delay() … }
		if lease := limiter.TryAcquire(*burst); !lease.Acquired() {
			retryAfter, _ := core.RetryAfter.From(lease)
			_, _ = fmt.Fprintf(s.Out, "%d at once: not before another %v\n", *burst, retryAfter.Round(time.Millisecond))
		}

		// limiter.Wait(hasty) has an error that matches nothing. This one says when to try
		// again, and is context.DeadlineExceeded.
		hasty, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := limiter.Acquire(hasty, *burst); errors.Is(err, context.DeadlineExceeded) {
			_, _ = fmt.Fprintln(s.Out, "in a hurry:", err)
		}

		// limiter.SetLimit(2 * rate); waiting callers go on sooner.
		if err := limiter.Update(core.PerSecond(2**rate, *burst)); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(s.Out, limiter)
		return nil
	}
}
