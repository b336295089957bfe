// Throttle copies files and limits their total rate.
//
//	throttle -rate 8MiB/s -o /mnt/stick one.iso two.iso
//	pg_dump app | throttle -rate 500kB/s -z | ssh backup 'cat > app.sql.gz'
//
// It shows [ioreader.Copy] with a limiter that package spec makes from text. With -z, it compresses ahead of the copies
// through a [pipe] for each file, whose bytes share one budget of memory. For daily use, see sluice throttle in cmd/sluice.
package main

import (
	"compress/gzip"
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
	"github.com/sluice-go/sluice/pipe"
	"github.com/sluice-go/sluice/spec"
)

const usage = `Throttle copies files, or stdin, at a rate that they share.

    throttle -rate RATE [-z] [-o DIR] [FILE...]

With -o, all files are copied to DIR concurrently. Otherwise stdin is copied to stdout. With -z, the
copies are compressed, and the rate is that of the compressed bytes.
`

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	rate := flags.String("rate", "", "bytes per second: 8MiB/s, 500kB/s, \"1MB/s burst 64KiB\" (required)")
	dir := flags.String("o", "", "the `directory` to copy to")
	compress := flags.Bool("z", false, "compress what is written, as gzip does, and add .gz to the names of files")
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
		copies := &copies{limiter: limiter, logger: log.New(s.Err, "", 0), start: time.Now()}
		if *compress {
			copies.ahead, err = core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: memory})
			if err != nil {
				return err
			}
		}
		if *dir == "" {
			copies.logger.Printf("copying stdin to stdout at %v", limit)
			return copies.one(ctx, "stdin", s.Out, s.In)
		}
		copies.logger.Printf("copying %d files to %s at %v together", len(names), *dir, limit)
		return copies.all(ctx, *dir, names)
	}
}

// memory is how many compressed bytes may wait to be written.
const memory = 1 << 20

// copies are the copies of one run. They share the limiter, and a line of progress each second.
type copies struct {
	limiter core.Limiter
	ahead   *core.ConcurrencyLimiter // a permit for each compressed byte that waits to be written; nil: the copies are not compressed
	logger  *log.Logger
	start   time.Time
	bytes   atomic.Int64 // bytes that all copies have written so far
	seconds atomic.Int64 // whole seconds after start for which progress was logged
}

// all copies all files concurrently, at equal shares of the rate. An error in one copy does not stop the others.
func (c *copies) all(ctx context.Context, dir string, names []string) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = c.file(ctx, dir, name) })
	}
	all.Wait()
	c.report("together", c.bytes.Load(), c.start)
	return errors.Join(errs...)
}

func (c *copies) file(ctx context.Context, dir, name string) error {
	src, err := os.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	name = filepath.Base(name)
	if c.ahead != nil {
		name += ".gz"
	}
	// An existing file is not overwritten: it may be the one that is read.
	dst, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(c.one(ctx, name, dst, src), dst.Close())
}

// one copies one stream and logs how fast it was.
func (c *copies) one(ctx context.Context, name string, dst io.Writer, src io.Reader) error {
	start := time.Now()
	var before int64
	if c.ahead != nil {
		r, err := c.compressed(src)
		if err != nil {
			return err
		}
		defer r.Close() // which ends the compression, if the copy has failed
		src = r
	}
	n, err := ioreader.Copy(ctx, dst, src, ioreader.CopyOptions{Limiter: c.limiter, OnProgress: func(p ioreader.Progress) {
		c.progress(p.Bytes - before)
		before = p.Bytes
	}})
	c.report(name, n, start)
	return err
}

// compressed returns a reader of the compressed bytes of src. They are compressed while the copy waits for its rate. The bytes
// that have not been read hold permits of ahead, so the memory for all files together is bounded.
func (c *copies) compressed(src io.Reader) (*pipe.Reader, error) {
	r, w, err := pipe.New(pipe.Options{WriteLimiter: c.ahead})
	if err != nil {
		return nil, err
	}
	go func() {
		z := gzip.NewWriter(w)
		_, err := io.Copy(z, src)
		w.CloseWithError(errors.Join(err, z.Close())) // nil is the end of the stream
	}()
	return r, nil
}

// progress counts n more bytes. Once a second it logs how many bytes all copies have written.
func (c *copies) progress(n int64) {
	total, seconds := c.bytes.Add(n), int64(time.Since(c.start)/time.Second)
	if last := c.seconds.Load(); seconds > last && c.seconds.CompareAndSwap(last, seconds) {
		c.logger.Printf("%d s: %.2f MiB", seconds, mebibytes(total))
	}
}

func (c *copies) report(name string, bytes int64, start time.Time) {
	took := time.Since(start)
	c.logger.Printf("%s: %d bytes in %v, %.2f MiB/s", name, bytes, took.Round(time.Millisecond), mebibytes(bytes)/max(took.Seconds(), 1e-9))
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
