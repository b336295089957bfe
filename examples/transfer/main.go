// Transfer sends data over TCP, on this machine, through a listener with a limit that two
// clients share, and shows the rate that each of them got.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Transfer sends data over TCP, on this machine, to several clients that share a bandwidth.

    transfer [-rate BYTES] [-each BYTES] [-clients N] [-file FILE] [-t TIME]

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

// run is the program; it returns its exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("transfer", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {
		fmt.Fprint(errs, usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rate, "rate", 20_000_000, "`bytes` per second for all clients together")
	flags.IntVar(&o.each, "each", 0, "`bytes` per second for each client; 0: no limit of its own")
	flags.IntVar(&o.clients, "clients", 2, "`number` of clients")
	flags.StringVar(&o.file, "file", "", "the `file` to send, again and again; without one, made-up data")
	flags.DurationVar(&o.span, "t", 2*time.Second, "`time` that it takes")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := o.validate(flags.Args()); err != nil {
		fmt.Fprintf(errs, "transfer: %v; try transfer -h\n", err)
		return 2
	}
	shares, err := transfer(ctx, o)
	if err != nil {
		fmt.Fprintln(errs, "transfer:", err)
		return 1
	}
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
	if ctx.Err() != nil {
		return 130
	}
	return 0
}

func (o options) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("what is %q", rest[0])
	case o.rate < 1:
		return fmt.Errorf("-rate %d, want at least 1", o.rate)
	case o.each < 0:
		return fmt.Errorf("-each %d, want at least 0", o.each)
	case o.clients < 1:
		return fmt.Errorf("-clients %d, want at least 1", o.clients)
	case o.span <= 0:
		return fmt.Errorf("-t %v, want more than 0", o.span)
	}
	return nil
}
