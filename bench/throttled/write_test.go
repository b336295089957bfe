package throttled

import (
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// counter is a writer that counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// rated is what users of x/time/rate write: WaitN, then Write.
type rated struct {
	ctx context.Context
	w   io.Writer
	l   *rate.Limiter
}

func (r *rated) Write(p []byte) (int, error) {
	if err := r.l.WaitN(r.ctx, len(p)); err != nil {
		return 0, err
	}
	return r.w.Write(p)
}

// writers wrap c with a limiter of so many bytes per second.
var writers = []struct {
	name string
	new  func(b *testing.B, ctx context.Context, c *counter, bytesPerSecond int) io.Writer
}{
	{"sluice", func(b *testing.B, ctx context.Context, c *counter, bytesPerSecond int) io.Writer {
		l, err := core.NewTokenBucket(ioreader.PerSecond(bytesPerSecond))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		return ioreader.NewWriter(ctx, c, l)
	}},
	{"xtime-rate", func(_ *testing.B, ctx context.Context, c *counter, bytesPerSecond int) io.Writer {
		// The same credit as PerSecond's, 10 ms.
		return &rated{ctx: ctx, w: c, l: rate.NewLimiter(rate.Limit(bytesPerSecond), bytesPerSecond/100)}
	}},
	{"juju", func(_ *testing.B, _ context.Context, c *counter, bytesPerSecond int) io.Writer {
		return ratelimit.Writer(c, ratelimit.NewBucketWithRate(float64(bytesPerSecond), int64(bytesPerSecond/100)))
	}},
	{"none", func(_ *testing.B, _ context.Context, c *counter, _ int) io.Writer { return c }},
}

// BenchmarkThrottledWrite writes 32 KiB through a limiter that has the permits.
func BenchmarkThrottledWrite(b *testing.B) {
	compareWriters(b, func(b *testing.B, throttled func(int) (io.Writer, *counter)) { write(b, throttled, 32<<10) })
}

// BenchmarkThrottledWriteOneProcessor is the same on one processor.
func BenchmarkThrottledWriteOneProcessor(b *testing.B) {
	compareWriters(b, func(b *testing.B, throttled func(int) (io.Writer, *counter)) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each sub-benchmark is given all again
		write(b, throttled, 32<<10)
	})
}

// BenchmarkThrottledWriteSize is the same for writes of 1 B to 1 MiB.
func BenchmarkThrottledWriteSize(b *testing.B) {
	compareWriters(b, func(b *testing.B, throttled func(int) (io.Writer, *counter)) {
		sidebyside.Over(b, "write", []int{1, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20},
			func(b *testing.B, size int) { write(b, throttled, size) })
	})
}

func compareWriters(b *testing.B, how func(*testing.B, func(bytesPerSecond int) (io.Writer, *counter))) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	impls := []sidebyside.Impl{}
	for _, w := range writers {
		impls = append(impls, sidebyside.Impl{Name: w.name, Run: func(b *testing.B) {
			how(b, func(bytesPerSecond int) (io.Writer, *counter) {
				c := new(counter)
				return w.new(b, ctx, c, bytesPerSecond), c
			})
		}})
	}
	sidebyside.Compare(b, impls...)
}

// perWrite is the rate in writes per second: one each 15 ns, which is less than any of them
// takes, so that none has to wait.
const perWrite = 1 << 26

func write(b *testing.B, throttled func(bytesPerSecond int) (io.Writer, *counter), size int) {
	b.Helper()
	w, c := throttled(size * perWrite)
	p := make([]byte, size)
	b.SetBytes(int64(size))
	for b.Loop() {
		if n, err := w.Write(p); n != size || err != nil {
			b.Fatalf("wrote %d of %d: %v", n, size, err)
		}
	}
	if want := int64(b.N) * int64(size); c.n != want {
		b.Fatalf("%d bytes arrived of %d", c.n, want)
	}
}
