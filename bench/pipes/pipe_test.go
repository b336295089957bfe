package pipes

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/djherbis/buffer"
	"github.com/djherbis/nio/v3"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// pipeSize is how many bytes are between the writer and the reader at most, of those pipes
// that hold any.
const pipeSize = 64 << 10

var pipes = []struct {
	name string
	new  func(b *testing.B) (io.ReadCloser, io.WriteCloser)
}{
	{"sluice", func(b *testing.B) (io.ReadCloser, io.WriteCloser) {
		l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: pipeSize, QueueLimit: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		r, w, err := pipe.New(pipe.Options{WriteLimiter: l})
		if err != nil {
			b.Fatal(err)
		}
		return r, w
	}},
	{"io.Pipe", func(*testing.B) (io.ReadCloser, io.WriteCloser) { return io.Pipe() }},
	{"net.Pipe", func(*testing.B) (io.ReadCloser, io.WriteCloser) { return net.Pipe() }},
	{"os.Pipe", func(b *testing.B) (io.ReadCloser, io.WriteCloser) { // 64 KiB by Linux's default
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		return r, w
	}},
	{"nio", func(*testing.B) (io.ReadCloser, io.WriteCloser) { return nio.Pipe(buffer.New(pipeSize)) }},
}

var sizes = []int{1, 512, 4 << 10, 32 << 10, 256 << 10}

// BenchmarkPipe writes pieces of one size into a pipe of 64 KiB, which another goroutine
// reads with a buffer of 64 KiB.
func BenchmarkPipe(b *testing.B) {
	for _, size := range sizes {
		b.Run("write="+strconv.Itoa(size), func(b *testing.B) {
			comparePipes(b, func(b *testing.B, open opener) { through(b, open, size, pipeSize) })
		})
	}
}

// BenchmarkPipeOneProcessor is BenchmarkPipe where the two goroutines have one processor to
// share, as in many a container.
func BenchmarkPipeOneProcessor(b *testing.B) {
	for _, size := range sizes {
		b.Run("write="+strconv.Itoa(size), func(b *testing.B) {
			comparePipes(b, func(b *testing.B, open opener) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each sub-benchmark is given all again
				through(b, open, size, pipeSize)
			})
		})
	}
}

// BenchmarkPipeWriteSize is the same for writes of 1 B to 1 MiB.
func BenchmarkPipeWriteSize(b *testing.B) {
	comparePipes(b, func(b *testing.B, open opener) {
		sidebyside.Over(b, "write", []int{1, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20},
			func(b *testing.B, size int) { through(b, open, size, pipeSize) })
	})
}

// BenchmarkPipeReadSize is the same for writes of 32 KiB and read buffers of 1 KiB to 1 MiB.
func BenchmarkPipeReadSize(b *testing.B) {
	comparePipes(b, func(b *testing.B, open opener) {
		sidebyside.Over(b, "read", []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20},
			func(b *testing.B, size int) { through(b, open, 32<<10, size) })
	})
}

type opener func(b *testing.B) (io.ReadCloser, io.WriteCloser)

func comparePipes(b *testing.B, how func(*testing.B, opener)) {
	b.Helper()
	impls := []sidebyside.Impl{}
	for _, p := range pipes {
		impls = append(impls, sidebyside.Impl{Name: p.name, Run: func(b *testing.B) { how(b, p.new) }})
	}
	sidebyside.Compare(b, impls...)
}

// through sends b.N writes through a pipe and checks that all of it comes out.
func through(b *testing.B, open opener, write, read int) {
	b.Helper()
	r, w := open(b)
	received := make(chan int)
	go func() {
		p, total := make([]byte, read), 0
		for {
			n, err := r.Read(p)
			total += n
			if err != nil {
				if !errors.Is(err, io.EOF) {
					b.Error(err)
				}
				received <- total
				return
			}
		}
	}()
	p := make([]byte, write)
	for i := range p {
		p[i] = byte(i)
	}
	b.SetBytes(int64(write))
	b.ResetTimer()
	for range b.N {
		if n, err := w.Write(p); n != write || err != nil {
			b.Fatalf("wrote %d of %d: %v", n, write, err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	total := <-received
	b.StopTimer()
	_ = r.Close()
	if want := b.N * write; total != want {
		b.Fatalf("read %d bytes of %d", total, want)
	}
}
