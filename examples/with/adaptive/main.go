// Adaptive shows adaptive limits: simulated, with plots, and in front of a real server.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
)

const usage = `Adaptive shows how the limits of package adaptive find the capacity of a server.

It simulates a server, in virtual time, of 100 slots, then 50, then 150, while the load
rises from a fifth of what it can do to three times as much. Each algorithm limits it
in turn, and none. It prints what came of it, and draws the limits and the latencies
over time as SVG files.

With -real it loads a server of net/http, whose handler keeps a processor busy, as
much as it can take and then three times as much, with a limit and without. The server
is a process of its own, on the same machine. Requests come when they are due, whether
others have been answered or not; a client gives up after a second.

Usage: adaptive [flags]

  go run . -o plots
  go run . -real -for 10s

Flags:
`

// settings are what the flags say.
type settings struct {
	folder string
	seed   uint64
	real   bool
	serve  string
	took   time.Duration
	work   time.Duration
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.StringVar(&s.folder, "o", "", "`folder` for the plots; none are drawn without")
	flags.Uint64Var(&s.seed, "seed", 1, "another number is another simulation")
	flags.BoolVar(&s.real, "real", false, "load a real server instead")
	flags.StringVar(&s.serve, "serve", "", "be the server that -real starts, with this `limit`: gradient or none")
	flags.DurationVar(&s.took, "for", 10*time.Second, "how long each real load lasts")
	flags.DurationVar(&s.work, "work", 10*time.Millisecond, "what a real request costs of a processor")
	return func(ctx context.Context, args []string) error {
		switch {
		case len(args) > 0:
			return program.Usage("%q: no arguments are wanted", args[0])
		case s.took <= 0 || s.work <= 0:
			return program.Usage("-for %v -work %v, want more than 0", s.took, s.work)
		case s.serve != "":
			return serve(ctx, streams, s)
		case s.real:
			return load(ctx, streams.Out, s)
		}
		return simulate(streams.Out, s)
	}
}
