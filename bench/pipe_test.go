package bench

import (
	"context"
	"io"
	"testing"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/pipe"
)

// BenchmarkPipe writes into a pipe, which another goroutine reads with a buffer of 64 KiB. The pipe of Sluice holds 64 KiB.
func BenchmarkPipe(b *testing.B) {
	const pipeSize = 64 << 10
	sized(b, "write", []int{1, 512, 4 << 10, 32 << 10, 256 << 10}, func(b *testing.B, size int) {
		compare(b,
			impl{"sluice", func(b *testing.B) {
				r, w, err := pipe.New(pipe.Options{WriteLimiter: newConcurrency(b, pipeSize)})
				if err != nil {
					b.Fatal(err)
				}
				through(b, r, w, size)
			}},
			impl{"io.Pipe", func(b *testing.B) {
				r, w := io.Pipe()
				through(b, r, w, size)
			}},
		)
	})
}

// counter counts the bytes that are written to it.
type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// through sends b.N writes through a pipe and checks that all of them come out.
func through(b *testing.B, r io.Reader, w io.WriteCloser, size int) {
	b.Helper()
	var received counter
	read := make(chan error)
	go func() {
		_, err := io.CopyBuffer(&received, struct{ io.Reader }{r}, make([]byte, 64<<10))
		read <- err
	}()
	b.ResetTimer()
	writes(b, w, size)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := <-read; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if want := int64(b.N) * int64(size); received.bytes != want {
		b.Fatalf("read %d bytes of %d", received.bytes, want)
	}
}

// writes makes b.N writes.
func writes(b *testing.B, w io.Writer, size int) {
	b.Helper()
	p := make([]byte, size)
	b.SetBytes(int64(size))
	for range b.N {
		if n, err := w.Write(p); n != size || err != nil {
			b.Fatalf("wrote %d of %d: %v", n, size, err)
		}
	}
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

// BenchmarkThrottledWrite writes 32 KiB through a limiter that has enough permits.
func BenchmarkThrottledWrite(b *testing.B) {
	const size = 32 << 10
	const bytesPerSecond = size << 26 // one write per 15 ns, which is less than a write takes
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	run := func(wrap func(io.Writer) io.Writer) func(b *testing.B) {
		return func(b *testing.B) {
			var c counter
			w := wrap(&c)
			b.ResetTimer()
			writes(b, w, size)
			if want := int64(b.N) * size; c.bytes != want {
				b.Fatalf("%d bytes were written, want %d", c.bytes, want)
			}
		}
	}
	compare(b,
		impl{"sluice", run(func(w io.Writer) io.Writer {
			return ioreader.NewWriter(ctx, w, core.Must(core.NewTokenBucket(ioreader.PerSecond(bytesPerSecond))))
		})},
		impl{"x-time-rate", run(func(w io.Writer) io.Writer { // with the credit of PerSecond, 10 ms
			return &rated{ctx: ctx, w: w, l: rate.NewLimiter(bytesPerSecond, bytesPerSecond/100)}
		})},
	)
}
