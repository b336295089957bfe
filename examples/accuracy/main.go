// Accuracy measures how well ioreader keeps to a rate on this machine: the error in the
// steady state and in the first second, the busiest 10 ms, and how evenly writers of
// different sizes share a limiter.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
)

func main() { program.Main(usage, define) }

const usage = `Accuracy measures how ioreader keeps to a rate on this machine.

    accuracy [-short] [-t TIME]

A machine that is busy with other work shows in the figures: run it on an idle one.

`

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	span := flags.Duration("t", 4*time.Second, "`time` for each row, at least 1.2s")
	short := flags.Bool("short", false, "fewer rows, 1.2 s each")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		rates, shared := []int{1e5, 1e6, 1e7, 1e8, 1e9}, []int{1e6, 1e7, 1e8}
		if math.MaxInt > math.MaxInt32 {
			tenfold := 10 // a constant of 1e10 does not compile where an int has 32 bits
			rates = append(rates, rates[len(rates)-1]*tenfold)
		}
		if *short {
			rates, shared, *span = []int{1e5, 1e8}, []int{1e7}, shortest
		}
		if *span < shortest {
			return program.Usage("-t %v is too short, want at least %v", *span, shortest)
		}
		return report(ctx, s.Out, rates, shared, *span)
	}
}

const shortest = 1200 * time.Millisecond

func report(ctx context.Context, out io.Writer, rates, shared []int, span time.Duration) error {
	fmt.Fprintf(out, "One writer, writes of 32 KiB and of 4 MiB, %v each:\n\n", span)
	fmt.Fprintf(out, "%12s %8s %14s %14s %15s %12s\n", "rate", "write", "steady error", "first second", "busiest 10 ms", "longest gap")
	for _, rate := range rates {
		for _, size := range []int{32 << 10, 4 << 20} {
			f, err := measure(ctx, rate, size, span)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%12s %8s %+13.3f%% %+13.3f%% %13.2f x %12v\n",
				show(rate)+"/s", binary(size), 100*f.steady, 100*f.first, f.busiest, f.gap.Round(10*time.Microsecond))
		}
	}
	fmt.Fprintln(out, "\nThe bucket holds 10 ms of credit. Where a gap is longer, the time beyond that is lost; such gaps are the machine's.")
	fmt.Fprintf(out, "\nWriters that share a limiter, %v each:\n\n", span)
	fmt.Fprintf(out, "%12s %10s %14s %10s %14s\n", "rate", "writer", "share", "writer", "share")
	for _, rate := range shared {
		for _, sizes := range [][]int{{512, 256 << 10}, {512, 512, 256 << 10, 256 << 10}} {
			shares, err := share(ctx, rate, sizes, span)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%12s", show(rate)+"/s")
			for i, part := range shares {
				fmt.Fprintf(out, " %10s %13.2f%%", binary(sizes[i]), 100*part)
			}
			fmt.Fprintln(out)
		}
	}
	return nil
}

// show writes a number of bytes.
func show(n int) string {
	for _, unit := range []struct {
		size int
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// binary writes the size of a write.
func binary(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
