// Throttle copies files at a rate.
//
//	throttle -rate 8MiB/s -o copy.iso image.iso
//	pg_dump app | throttle -rate 500kB/s | ssh backup 'cat > app.sql'
//	throttle -rate 20MB/s -o /mnt/stick/ one.mkv two.mkv three.mkv
package main

import (
	"context"
	"flag"
	"io"
	"os"

	"github.com/sluice-go/sluice/internal/program"
)

const usage = `Throttle copies files, or standard input, at a rate.

    throttle -rate RATE [-o OUT] [FILE...]

Of several files, one after the other goes to OUT, as with cat. If OUT is a directory,
each goes to a file of its own name in there, all at once, and they share the rate.
`

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	rateText := flags.String("rate", "", "bytes per second: 8MiB/s, 500kB/s, 1.5GB/s, 100kbit/s (required)")
	out := flags.String("o", "-", "the `file` or directory to copy to; - is standard output")
	quiet := flags.Bool("q", false, "no progress line and no summary")
	return func(ctx context.Context, names []string) error {
		if err := program.Arguments(names); err != nil {
			return err
		}
		if *rateText == "" {
			return program.Usage("no -rate")
		}
		limit, err := parseRate(*rateText)
		if err != nil {
			return program.Usage("%w", err)
		}
		streams, err := open(names, *out, os.Stdin, os.Stdout)
		if err != nil {
			return err
		}
		j := job{limit: limit, streams: streams, screen: io.Discard}
		if !*quiet {
			j.summary = s.Err
			if program.IsTerminal(s.Err) {
				j.screen = s.Err
			}
		}
		return j.run(ctx)
	}
}
