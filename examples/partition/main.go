// Partition reads a web server's access log, plays it again in seconds, and prints whom a
// limit for each client would have refused most.
package main

import (
	"bufio"
	"context"
	"flag"
	"io"
	"os"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/spec"
)

const usage = `Partition shows what a limit for each client would do to a server's traffic.

It reads an access log in the combined format, plays it again in quick motion, with
a limiter for each client, and prints the clients that were limited most: how many
of their requests were allowed, and how many refused. The limit is as -limit says,
in the log's time; a limiter whose client has gone is dropped on the way.

Usage: partition [flags] [FILE]

  go run ./examples/partition -generate > access.log
  go run ./examples/partition access.log
  go run ./examples/partition -limit "sliding 100/min" -top 3 access.log

Without a FILE it reads standard input.

Flags:
`

// settings are what the flags say.
type settings struct {
	generate bool
	lines    int
	seed     uint64
	limit    spec.Limit
	most     int
	took     time.Duration
	top      int
}

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, streams program.Streams) program.Body {
	var s settings
	flags.BoolVar(&s.generate, "generate", false, "write a log, of an hour with a few heavy hitters, and do nothing else")
	flags.IntVar(&s.lines, "lines", 200_000, "how many `lines` to generate")
	flags.Uint64Var(&s.seed, "seed", 1, "another number generates another log")
	flags.TextVar(&s.limit, "limit", spec.Limit{Kind: spec.TokenBucket, Permits: 2, Per: time.Second, Burst: 20},
		"what each client may do, such as \"fixed 100/min\"")
	flags.IntVar(&s.most, "clients", 10_000, "`clients` that have a limiter at once; the rest share one of the same limit")
	flags.DurationVar(&s.took, "took", 3*time.Second, "how long to play; longer is more exact")
	flags.IntVar(&s.top, "top", 10, "how many `clients` to print")
	return func(ctx context.Context, args []string) error {
		switch {
		case s.lines < 1:
			return program.Usage("-lines = %d, want at least 1", s.lines)
		case s.most < 1:
			return program.Usage("-clients = %d, want at least 1", s.most)
		case s.took <= 0:
			return program.Usage("-took = %v, want above 0", s.took)
		case s.top < 1:
			return program.Usage("-top = %d, want at least 1", s.top)
		case len(args) > 1:
			return program.Usage("%d files, want one", len(args))
		case s.generate && len(args) > 0:
			return program.Usage("-generate reads no %s", args[0])
		}
		if s.generate {
			return generate(streams.Out, s.lines, s.seed)
		}
		in := streams.In
		if len(args) == 1 && args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		return analyse(ctx, s, in, streams.Out)
	}
}

func analyse(ctx context.Context, s settings, in io.Reader, out io.Writer) error {
	l, err := readLog(in)
	if err != nil {
		return err
	}
	r, err := play(ctx, s, l)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	r.print(w, s.top)
	return w.Flush()
}
