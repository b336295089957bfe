package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/worker"
)

// Groups of five queued tasks whose contexts end together. The time of a task does not depend on how many
// groups there are.
func BenchmarkGroupsThatEnd(b *testing.B) {
	for _, groups := range []int{1000, 4000, 16000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			const tasks = 5
			l := concurrency(b, 1)
			p := newPool(b, worker.Options{Limiter: l, Queue: tasks*groups + 1})
			held := l.TryAcquire(1)
			// A leader whose context does not end keeps the worker from going through the queue meanwhile.
			require.NoError(b, p.Submit(b.Context(), nothing))
			for b.Loop() {
				b.StopTimer()
				ctx, cancel := context.WithCancel(b.Context())
				var all sync.WaitGroup
				for range groups {
					g := p.Group(ctx)
					for range tasks {
						g.Go(nothing)
					}
					all.Go(func() { _ = g.Wait() })
				}
				b.StartTimer()
				cancel()
				all.Wait()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*groups*tasks), "ns/task")
			held.Release()
			require.NoError(b, p.Wait(b.Context()))
		})
	}
}
