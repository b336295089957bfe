package worker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/worker"
)

// Empty tasks from one goroutine, up to the end of the last one.
func BenchmarkPool(b *testing.B) {
	for _, queue := range []int{0, 1024} {
		for _, permits := range []int{1, 16, 1000} {
			b.Run(fmt.Sprintf("queue=%d/permits=%d", queue, permits), func(b *testing.B) {
				p := newPool(b, worker.Options{Limiter: concurrency(b, permits), Queue: queue})
				ctx := b.Context()
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Submit(ctx, nothing); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, p.Wait(ctx))
			})
		}
	}
}

// The same from many.
func BenchmarkPoolParallel(b *testing.B) {
	for _, queue := range []int{0, 1024} {
		b.Run(fmt.Sprintf("queue=%d/permits=16", queue), func(b *testing.B) {
			p := newPool(b, worker.Options{Limiter: concurrency(b, 16), Queue: queue})
			ctx := b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := p.Submit(ctx, nothing); err != nil {
						b.Error(err)
						return
					}
				}
			})
			require.NoError(b, p.Wait(ctx))
		})
	}
}
