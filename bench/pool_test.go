package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alitto/pond/v2"
	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

const queue = 1024 // tasks that can wait, in pools with a queue

// pools run a task n times on so many workers, and return when all of the tasks have returned. The first four have a
// queue of 1,024 tasks; submitting waits while it is full. In the others submitting waits until the task starts.
var pools = []struct {
	name string
	run  func(tb testing.TB, workers, n int, task func()) error
}{
	{"sluice", func(tb testing.TB, workers, n int, task func()) error { return submit(tb, workers, queue, n, task) }},
	{"pond", func(_ testing.TB, workers, n int, task func()) error {
		p := pond.NewPool(workers, pond.WithQueueSize(queue))
		defer p.StopAndWait()
		for range n {
			if err := p.Go(task); err != nil {
				return err
			}
		}
		return nil
	}},
	{"native", func(_ testing.TB, workers, n int, task func()) error {
		tasks := make(chan func(), queue)
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				for task := range tasks {
					task()
				}
			})
		}
		for range n {
			tasks <- task
		}
		close(tasks)
		running.Wait()
		return nil
	}},
	{"sluice-unqueued", func(tb testing.TB, workers, n int, task func()) error { return submit(tb, workers, 0, n, task) }},
	{"errgroup", func(_ testing.TB, workers, n int, task func()) error {
		var g errgroup.Group
		g.SetLimit(workers)
		f := func() error { task(); return nil }
		for range n {
			g.Go(f)
		}
		return g.Wait()
	}},
	{"ants", func(tb testing.TB, workers, n int, task func()) error {
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

func submit(tb testing.TB, workers, queue, n int, task func()) error {
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
func BenchmarkPool(b *testing.B) { benchmarkPool(b, func() {}) }

// BenchmarkPoolYield runs tasks that let other goroutines run, as tasks that wait for something do, so that all
// workers are busy.
func BenchmarkPoolYield(b *testing.B) { benchmarkPool(b, runtime.Gosched) }

func benchmarkPool(b *testing.B, task func()) {
	b.Helper()
	sized(b, "workers", []int{16, 64}, func(b *testing.B, workers int) {
		for _, p := range pools {
			compare(b, impl{p.name, func(b *testing.B) {
				if err := p.run(b, workers, b.N, task); err != nil {
					b.Fatal(err)
				}
			}})
		}
	})
}

// TestEveryTaskRuns checks that the pools do the work that BenchmarkPool measures.
func TestEveryTaskRuns(t *testing.T) {
	for _, p := range pools {
		const n = 10_000
		var ran atomic.Int64
		if err := p.run(t, 16, n, func() { ran.Add(1) }); err != nil || ran.Load() != n {
			t.Errorf("%s: %d tasks ran, want %d: %v", p.name, ran.Load(), n, err)
		}
	}
}
