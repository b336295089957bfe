// Transfer sends data over TCP, on this machine, through a listener with a limit that two
// clients share, and shows the rate that each of them got.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/spec"
)

func main() { program.Main(usage, define) }

const usage = `Transfer sends data over TCP, on this machine, to several clients that share a bandwidth.

    transfer [-rate RATE] [-each RATE] [-clients N] [-file FILE] [-t TIME]

The first client asks for large pieces, the next for small ones, and so on by turns.

`

// options are what the user asks for.
type options struct {
	rate    int // bytes per second, for all clients
	each    int // bytes per second, for one client; 0: no limit
	clients int
	file    string
	span    time.Duration
}

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	var o options
	rate, each := spec.Limit{Kind: spec.TokenBucket, Permits: 20_000_000, Per: time.Second}, spec.Limit{}
	flags.TextVar(&rate, "rate", rate, "the `bandwidth` of all clients together, as 20MB/s")
	flags.TextVar(&each, "each", each, "the `bandwidth` of each client, as 5MB/s")
	flags.IntVar(&o.clients, "clients", 2, "`number` of clients")
	flags.StringVar(&o.file, "file", "", "the `file` to send, again and again; without one, made-up data")
	flags.DurationVar(&o.span, "t", 2*time.Second, "`time` that it takes")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		var err error
		if o.rate, err = perSecond("rate", rate); err != nil {
			return err
		}
		if each != (spec.Limit{}) {
			if o.each, err = perSecond("each", each); err != nil {
				return err
			}
		}
		if err := o.validate(); err != nil {
			return program.Usage("%w", err)
		}
		shares, err := transfer(ctx, o)
		if err != nil {
			return err
		}
		o.report(s.Out, shares)
		return ctx.Err()
	}
}

// perSecond returns the bytes per second of a bandwidth.
func perSecond(name string, l spec.Limit) (int, error) {
	if l.Kind != spec.TokenBucket || l.Per > time.Second {
		return 0, program.Usage("-%s %v, want a bandwidth such as 20MB/s", name, l)
	}
	return l.Permits * int(time.Second/l.Per), nil
}

func (o options) report(out io.Writer, shares []share) {
	total := 0.0
	for i, s := range shares {
		fmt.Fprintf(out, "client %d, %s: %d bytes in %.2f s, %.2f MB/s\n", i+1, s.kind, s.bytes, s.took.Seconds(), s.rate()/1e6)
		total += s.rate()
	}
	limit, what := float64(o.rate), "that they share"
	if all := float64(o.each) * float64(o.clients); o.each > 0 && all < limit {
		limit, what = all, "that each may have"
	}
	fmt.Fprintf(out, "together: %.2f MB/s, %+.2f %% off the %.2f MB/s %s\n", total/1e6, 100*(total/limit-1), limit/1e6, what)
}

func (o options) validate() error {
	switch {
	case o.clients < 1:
		return fmt.Errorf("-clients %d, want at least 1", o.clients)
	case o.span <= 0:
		return fmt.Errorf("-t %v, want more than 0", o.span)
	}
	return nil
}
