// Command report runs the benchmarks side by side and writes RESULTS.md, results/*/*.txt and
// plots/*.svg. Run it in the folder bench.
//
//	go run ./cmd/report                  everything, some 15 minutes
//	go run ./cmd/report -only '^pipe-'   some of it again; the rest stays as it was
//	go run ./cmd/report -only '^$'       the table and the plots again, from results/
//	go run ./cmd/report -quick           each benchmark once; writes nothing
//
// Results are kept for each kind of processor: results/intel, results/amd, results/other. The
// line "cpu:" that the benchmarks print decides where the new ones go; those of other kinds
// stay as they were.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	var (
		quick = flag.Bool("quick", false, "run each benchmark once, check that all of the table can be filled, write nothing")
		only  = flag.String("only", "", "measure again only those whose name matches the `regexp`")
		list  = flag.Bool("list", false, "print the names of the measurements")
		e     = effort{memoryRounds: 3}
	)
	flag.IntVar(&e.rounds, "rounds", 10, "pairs per line of the table")
	flag.DurationVar(&e.benchtime, "benchtime", 200*time.Millisecond, "time per implementation and round")
	flag.IntVar(&e.curveRounds, "curve-rounds", 3, "repetitions per point of a curve")
	flag.DurationVar(&e.curveBenchtime, "curve-benchtime", 100*time.Millisecond, "time per point and repetition")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := report(ctx, *quick, *list, *only, e)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(ctx context.Context, quick, list bool, only string, e effort) error {
	matches, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if _, err := os.Stat("cmd/report"); err != nil {
		return fmt.Errorf("run this in the folder bench: %w", err)
	}
	var chosen []measurement
	for _, m := range measurements() {
		if !matches.MatchString(m.name) {
			continue
		}
		if chosen = append(chosen, m); list {
			_, _ = fmt.Fprintln(os.Stdout, m.name)
		}
	}
	if list {
		return nil
	}
	binaries, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	r := &runner{binaries: binaries}
	r.build(ctx, chosen)
	if quick {
		r.quick(ctx, chosen)
		return r.err()
	}
	if err := os.MkdirAll("plots", 0o755); err != nil {
		return err
	}
	if err := r.measure(ctx, chosen, e, header(ctx, e)); err != nil {
		return err
	}
	if r.cpu != "" {
		fmt.Fprintf(os.Stderr, "measured on %s: %s\n", r.cpu, kindOf(r.cpu).folder())
	}
	return errors.Join(r.err(), write())
}
