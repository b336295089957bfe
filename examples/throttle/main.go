// Throttle copies files and limits their total rate.
//
//	throttle -rate 8MiB/s -o /mnt/stick one.iso two.iso
//	pg_dump app | throttle -rate 500kB/s | ssh backup 'cat > app.sql'
//
// It shows [ioreader.Copy] with a limiter that package spec makes from text. For daily use, see sluice throttle
// in cmd/sluice.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/spec"
)

const usage = `Throttle copies files, or stdin, at a rate that they share.

    throttle -rate RATE [-o DIR] [FILE...]

With -o, all files are copied to DIR concurrently. Otherwise stdin is copied to stdout.
`

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	rate := flags.String("rate", "", "bytes per second: 8MiB/s, 500kB/s, \"1MB/s burst 64KiB\" (required)")
	dir := flags.String("o", "", "the `directory` to copy to")
	return func(ctx context.Context, names []string) error {
		if err := program.Arguments(names); err != nil {
			return err
		}
		if (*dir == "") != (len(names) == 0) {
			return program.Usage("want -o and files, or neither")
		}
		limit, err := spec.Parse(*rate)
		if err != nil {
			return program.Usage("-rate: %w", err)
		}
		limiter, err := limit.New("rate")
		if err != nil {
			return program.Usage("-rate: %w", err)
		}
		logger := log.New(s.Err, "", 0) // shared by the copies
		if *dir == "" {
			_, err := copyOne(ctx, "stdin", s.Out, s.In, limiter, logger)
			return err
		}
		return copyAll(ctx, *dir, names, limiter, logger)
	}
}

// copyAll copies all files concurrently, at equal shares of the rate. An error in one copy does not stop the others.
func copyAll(ctx context.Context, dir string, names []string, l core.Limiter, logger *log.Logger) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	var bytes atomic.Int64
	start := time.Now()
	for i, name := range names {
		all.Go(func() {
			var n int64
			n, errs[i] = copyFile(ctx, dir, name, l, logger)
			bytes.Add(n)
		})
	}
	all.Wait()
	report(logger, "together", bytes.Load(), time.Since(start))
	return errors.Join(errs...)
}

func copyFile(ctx context.Context, dir, name string, l core.Limiter, logger *log.Logger) (int64, error) {
	src, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	// An existing file is not overwritten: it may be the one that is read.
	dst, err := os.OpenFile(filepath.Join(dir, filepath.Base(name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	n, err := copyOne(ctx, filepath.Base(name), dst, src, l, logger)
	return n, errors.Join(err, dst.Close())
}

// copyOne copies one stream and logs how fast it was.
func copyOne(ctx context.Context, name string, dst io.Writer, src io.Reader, l core.Limiter, logger *log.Logger) (int64, error) {
	start := time.Now()
	n, err := ioreader.Copy(ctx, dst, src, ioreader.CopyOptions{Limiter: l})
	report(logger, name, n, time.Since(start))
	return n, err
}

func report(logger *log.Logger, name string, bytes int64, took time.Duration) {
	logger.Printf("%s: %d bytes in %v, %.2f MiB/s", name, bytes, took.Round(time.Millisecond), float64(bytes)/(1<<20)/max(took.Seconds(), 1e-9))
}
