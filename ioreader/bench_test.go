package ioreader_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// ample has permits for every benchmark.
func ample(tb testing.TB) *core.TokenBucket {
	tb.Helper()
	return bucketOf(tb, 1<<30, 1<<20, 1)
}

func TestAllocations(t *testing.T) {
	p := make([]byte, 32<<10)
	for name, l := range map[string]core.Limiter{"bucket": ample(t), "semaphore": semaphore(t, 1<<20), "unlimited": nil} {
		w := ioreader.NewWriter(t.Context(), io.Discard, l)
		src := bytes.NewReader(p)
		r := ioreader.NewReader(t.Context(), src, l)
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = w.Write(p) }), "write, %s", name)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			src.Reset(p)
			_, _ = r.Read(p)
		}), "read, %s", name)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			src.Reset(p[:100])
			_, _ = r.Read(p)
		}), "short read, %s", name)
	}
}

func BenchmarkWrite(b *testing.B) {
	p := make([]byte, 32<<10)
	for name, l := range map[string]core.Limiter{"bucket": ample(b), "semaphore": semaphore(b, 1<<20), "unlimited": nil} {
		b.Run("limiter="+name, func(b *testing.B) {
			w := ioreader.NewWriter(b.Context(), io.Discard, l)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = w.Write(p)
			}
		})
	}
	b.Run("limiter=bucket/acquire-alone", func(b *testing.B) {
		l, ctx := ample(b), b.Context()
		for b.Loop() {
			_, _ = l.Acquire(ctx, len(p))
		}
	})
}

func BenchmarkRead(b *testing.B) {
	p, src := make([]byte, 32<<10), bytes.NewReader(nil)
	for _, n := range []int{100, 32 << 10} {
		b.Run("bytes="+time.Duration(n).String(), func(b *testing.B) {
			r := ioreader.NewReader(b.Context(), src, ample(b))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(p[:n])
				_, _ = r.Read(p)
			}
		})
	}
}
