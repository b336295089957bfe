// Throttle copies files at a rate.
//
//	throttle -rate 8MiB/s -o copy.iso image.iso
//	pg_dump app | throttle -rate 500kB/s | ssh backup 'cat > app.sql'
//	throttle -rate 20MB/s -o /mnt/stick/ one.mkv two.mkv three.mkv
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

const usage = `Throttle copies files, or standard input, at a rate.

    throttle -rate RATE [-o OUT] [FILE...]

Of several files, one after the other goes to OUT, as with cat. If OUT is a directory,
each goes to a file of its own name in there, all at once, and they share the rate.

`

// run is the program; it returns its exit code.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	flags := flag.NewFlagSet("throttle", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	rateText := flags.String("rate", "", "bytes per second: 8MiB/s, 500kB/s, 1.5GB/s, 100kbit/s (required)")
	out := flags.String("o", "-", "the `file` or directory to copy to; - is standard output")
	quiet := flags.Bool("q", false, "no progress line and no summary")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case *rateText == "":
		fmt.Fprintln(stderr, "throttle: no -rate; try throttle -h")
		return exitUsage
	}
	limit, err := parseRate(*rateText)
	if err != nil {
		fmt.Fprintln(stderr, "throttle:", err)
		return exitUsage
	}
	streams, err := open(flags.Args(), *out, stdin, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "throttle:", err)
		return exitError
	}
	j := job{limit: limit, streams: streams, screen: io.Discard}
	if !*quiet {
		j.summary = stderr
		if isTerminal(stderr) {
			j.screen = stderr
		}
	}
	switch err := j.run(ctx); {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "throttle:", err)
		return exitError
	}
	return 0
}

// isTerminal reports whether a person sees what is written to f.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
