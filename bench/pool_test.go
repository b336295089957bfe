package bench

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

const (
	workers = 16
	queue   = 1024 // tasks that can wait, in pools with a bounded queue
)

// pools run a task n times and return when all of them have returned. Sluice without a queue is like errgroup and ants:
// Submit waits until the task starts.
var pools = []struct {
	name string
	run  func(tb testing.TB, n int, task func()) error
}{
	{"sluice", func(tb testing.TB, n int, task func()) error { return submit(tb, queue, n, task) }},
	{"sluice-unqueued", func(tb testing.TB, n int, task func()) error { return submit(tb, 0, n, task) }},
	{"pond", func(_ testing.TB, n int, task func()) error {
		p := pond.NewPool(workers)
		defer p.StopAndWait()
		for range n {
			if err := p.Go(task); err != nil {
				return err
			}
		}
		return nil
	}},
	{"errgroup", func(_ testing.TB, n int, task func()) error {
		var g errgroup.Group
		g.SetLimit(workers)
		f := func() error { task(); return nil }
		for range n {
			g.Go(f)
		}
		return g.Wait()
	}},
	{"ants", func(tb testing.TB, n int, task func()) error {
		p, err := ants.NewPool(workers, ants.WithPreAlloc(true))
		if err != nil {
			return err
		}
		for range n {
			if err := p.Submit(task); err != nil {
				return err
			}
		}
		return p.ReleaseContext(tb.Context())
	}},
}

func submit(tb testing.TB, queue, n int, task func()) error {
	tb.Helper()
	ctx := tb.Context()
	p := core.Must(worker.New(worker.Options{Limiter: newConcurrency(tb, workers), Queue: queue}))
	f := func(context.Context) error { task(); return nil }
	for range n {
		if err := p.Submit(ctx, f); err != nil {
			return err
		}
	}
	return p.Close(ctx)
}

// BenchmarkPool runs empty tasks, from the creation of the pool until the last task has returned.
func BenchmarkPool(b *testing.B) {
	for _, p := range pools {
		compare(b, impl{p.name, func(b *testing.B) {
			if err := p.run(b, b.N, func() {}); err != nil {
				b.Fatal(err)
			}
		}})
	}
}

// TestEveryTaskRuns checks that the pools do the work that BenchmarkPool measures.
func TestEveryTaskRuns(t *testing.T) {
	for _, p := range pools {
		const n = 10_000
		var ran atomic.Int64
		if err := p.run(t, n, func() { ran.Add(1) }); err != nil || ran.Load() != n {
			t.Errorf("%s: %d tasks ran, want %d: %v", p.name, ran.Load(), n, err)
		}
	}
}
