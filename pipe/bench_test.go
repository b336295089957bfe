package pipe_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// BenchmarkPipe moves bytes from one goroutine to another by Writes of one size, read with
// a buffer of that size, and of 64 KiB.
func BenchmarkPipe(b *testing.B) {
	impls := []struct {
		name string
		make func() (io.ReadCloser, io.WriteCloser)
	}{
		{"io", func() (io.ReadCloser, io.WriteCloser) { return io.Pipe() }},
		{"sluice", func() (io.ReadCloser, io.WriteCloser) { return newPipe(b, pipe.Options{}) }},
		{"concurrency", func() (io.ReadCloser, io.WriteCloser) {
			return newPipe(b, pipe.Options{WriteLimiter: concurrency(b, 64<<10, 64<<10)})
		}},
		{"bucket", func() (io.ReadCloser, io.WriteCloser) {
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 1 << 30, TokensPerPeriod: 1 << 30, ReplenishmentPeriod: 1e6, QueueLimit: 1 << 30,
			})
			if err != nil {
				b.Fatal(err)
			}
			return newPipe(b, pipe.Options{WriteLimiter: l})
		}},
	}
	for _, size := range []int{1, 512, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10} {
		for _, read := range []string{"same", "64KiB"} {
			for _, impl := range impls {
				b.Run(fmt.Sprintf("size=%d/read=%s/impl=%s", size, read, impl.name), func(b *testing.B) {
					r, w := impl.make()
					n := 64 << 10
					if read == "same" {
						n = size
					}
					transfer(b, r, w, size, n)
				})
			}
		}
	}
}

func transfer(b *testing.B, r io.ReadCloser, w io.WriteCloser, write, read int) {
	b.Helper()
	done := make(chan int64)
	go func() {
		buf, sum := make([]byte, read), int64(0)
		for {
			n, err := r.Read(buf)
			sum += int64(n)
			if err != nil {
				break
			}
		}
		done <- sum
	}()
	buf := make([]byte, write)
	b.SetBytes(int64(write))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := w.Write(buf); err != nil {
			b.Fatal(err)
		}
		n++
	}
	_ = w.Close()
	if got := <-done; got != int64(n)*int64(write) {
		b.Fatalf("read %d bytes of %d", got, n*write)
	}
	_ = r.Close()
}
