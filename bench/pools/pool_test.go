package pools

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Jeffail/tunny"
	"github.com/alitto/pond/v2"
	"github.com/gammazero/workerpool"
	"github.com/panjf2000/ants/v2"
	"github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// runner has n tasks run, each of them task, by so many workers, and returns when all have.
type runner struct {
	name string
	run  func(tb testing.TB, workers, n int, task func())
}

var runners = []runner{
	{"sluice", func(tb testing.TB, workers, n int, task func()) { runSluice(tb, workers, queue, n, task) }},
	{"pond", func(tb testing.TB, workers, n int, task func()) { runPond(tb, pond.NewPool(workers), n, task) }},
	{"errgroup", func(tb testing.TB, workers, n int, task func()) {
		var g errgroup.Group
		g.SetLimit(workers)
		f := func() error { task(); return nil }
		for range n {
			g.Go(f)
		}
		if err := g.Wait(); err != nil {
			tb.Error(err)
		}
	}},
	{"ants", func(tb testing.TB, workers, n int, task func()) {
		runAnts(tb, workers, n, task, ants.WithPreAlloc(true))
	}},
	{"conc", func(_ testing.TB, workers, n int, task func()) {
		p := pool.New().WithMaxGoroutines(workers)
		for range n {
			p.Go(task)
		}
		p.Wait()
	}},
	{"gammazero", func(_ testing.TB, workers, n int, task func()) {
		p := workerpool.New(workers)
		for range n {
			p.Submit(task)
		}
		p.StopWait()
	}},
	// The floor: fixed goroutines at the end of a channel.
	{"channel", func(_ testing.TB, workers, n int, task func()) {
		tasks := make(chan func(), queue)
		var goroutines sync.WaitGroup
		for range workers {
			goroutines.Go(func() {
				for task := range tasks {
					task()
				}
			})
		}
		for range n {
			tasks <- task
		}
		close(tasks)
		goroutines.Wait()
	}},
	// pond with a queue as long as ours, and ants as it comes.
	{"pond-bounded", func(tb testing.TB, workers, n int, task func()) {
		runPond(tb, pond.NewPool(workers, pond.WithQueueSize(queue)), n, task)
	}},
	{"ants-plain", func(tb testing.TB, workers, n int, task func()) { runAnts(tb, workers, n, task) }},
	// Ours without a queue of its own, as errgroup, ants and conc are: Submit waits until the
	// limiter admits the task.
	{"sluice-unqueued", func(tb testing.TB, workers, n int, task func()) { runSluice(tb, workers, 0, n, task) }},
	// Ours as errgroup is used: one Group, with a queue and without.
	{"sluice-group", func(tb testing.TB, workers, n int, task func()) { runGroup(tb, workers, queue, n, task) }},
	{"sluice-group-unqueued", func(tb testing.TB, workers, n int, task func()) { runGroup(tb, workers, 0, n, task) }},
}

func runPond(tb testing.TB, p pond.Pool, n int, task func()) {
	tb.Helper()
	for range n {
		if err := p.Go(task); err != nil {
			tb.Error(err)
			return
		}
	}
	p.StopAndWait()
}

func runAnts(tb testing.TB, workers, n int, task func(), options ...ants.Option) {
	tb.Helper()
	p, err := ants.NewPool(workers, options...)
	if err != nil {
		tb.Error(err)
		return
	}
	for range n {
		if err := p.Submit(task); err != nil {
			tb.Error(err)
			return
		}
	}
	if err := p.ReleaseContext(tb.Context()); err != nil {
		tb.Error(err)
	}
}

func runSluice(tb testing.TB, workers, queue, n int, task func()) {
	tb.Helper()
	ctx := tb.Context()
	p := newPool(tb, workers, queue)
	f := func(context.Context) error { task(); return nil }
	for range n {
		if err := p.Submit(ctx, f); err != nil {
			tb.Error(err)
			return
		}
	}
	if err := p.Wait(ctx); err != nil {
		tb.Error(err)
	}
	if err := p.Close(ctx); err != nil {
		tb.Error(err)
	}
}

func runGroup(tb testing.TB, workers, queue, n int, task func()) {
	tb.Helper()
	g := newPool(tb, workers, queue).Group(tb.Context())
	f := func(context.Context) error { task(); return nil }
	for range n {
		g.Go(f)
	}
	if err := g.Wait(); err != nil {
		tb.Error(err)
	}
}

func newPool(tb testing.TB, workers, queue int) *worker.Pool {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: workers, QueueLimit: 1 << 30})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := worker.New(worker.Options{Limiter: l, Queue: queue})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestEveryTaskRuns shows that the runners do the work that the benchmarks time.
func TestEveryTaskRuns(t *testing.T) {
	for _, r := range runners {
		t.Run(r.name, func(t *testing.T) {
			const n = 10_000
			var ran atomic.Int64
			r.run(t, workers, n, func() { ran.Add(1) })
			if got := ran.Load(); got != n {
				t.Errorf("%d tasks ran, want %d", got, n)
			}
		})
	}
}

const (
	workers = 16   // where their number is not varied
	queue   = 1024 // tasks that may wait, of those pools that have a bound
)

// BenchmarkPool has empty tasks run: from the first Submit, the making of the pool included,
// to the end of the last task.
func BenchmarkPool(b *testing.B) {
	impls := []sidebyside.Impl{}
	for _, r := range runners {
		impls = append(impls, sidebyside.Impl{Name: r.name, Run: func(b *testing.B) { r.run(b, workers, b.N, func() {}) }})
	}
	sidebyside.Compare(b, impls...)
}

// BenchmarkPoolOneProcessor is the same on one processor, as in many a container.
func BenchmarkPoolOneProcessor(b *testing.B) {
	impls := []sidebyside.Impl{}
	for _, r := range runners {
		impls = append(impls, sidebyside.Impl{Name: r.name, Run: func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each sub-benchmark is given all again
			r.run(b, workers, b.N, func() {})
		}})
	}
	sidebyside.Compare(b, impls...)
}

// BenchmarkPoolWorkers is BenchmarkPool for 1 to 10,000 workers. An operation is ten tasks for each
// worker, or the benchmark would measure the creation of goroutines; the time reported
// is that of one task.
func BenchmarkPoolWorkers(b *testing.B) {
	impls := []sidebyside.Impl{}
	for _, r := range runners {
		impls = append(impls, sidebyside.Impl{Name: r.name, Run: func(b *testing.B) {
			for _, n := range sidebyside.Sizes(1, 2, 4, 16, 64, 256, 1000, 10_000) {
				b.Run("workers="+strconv.Itoa(n), func(b *testing.B) {
					tasks := 10 * n * b.N
					r.run(b, n, tasks, func() {})
					b.ReportMetric(float64(b.Elapsed())/float64(tasks), "ns/op")
				})
			}
		}})
	}
	sidebyside.Each(b, impls...)
}

// BenchmarkPoolRoundTrip waits for the result of each task before the next. It is the only
// thing that tunny does.
func BenchmarkPoolRoundTrip(b *testing.B) {
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			p := newPool(b, workers, queue)
			answer := func(context.Context) (int, error) { return 42, nil }
			for b.Loop() {
				if v, err := worker.Do(ctx, p, answer); v != 42 || err != nil {
					b.Fatal(v, err)
				}
			}
			_ = p.Close(ctx)
		}},
		sidebyside.Impl{Name: "tunny", Run: func(b *testing.B) {
			p := tunny.NewFunc(workers, func(any) any { return 42 })
			for b.Loop() {
				if v := p.Process(nil); v != 42 {
					b.Fatal(v)
				}
			}
			p.Close()
		}},
		sidebyside.Impl{Name: "pond", Run: func(b *testing.B) {
			p := pond.NewResultPool[int](workers)
			answer := func() int { return 42 }
			for b.Loop() {
				if v, err := p.Submit(answer).Wait(); v != 42 || err != nil {
					b.Fatal(v, err)
				}
			}
			p.StopAndWait()
		}},
		sidebyside.Impl{Name: "gammazero", Run: func(b *testing.B) {
			p := workerpool.New(workers)
			v := 0
			for b.Loop() {
				v = 0
				p.SubmitWait(func() { v = 42 })
				if v != 42 {
					b.Fatal(v)
				}
			}
			p.StopWait()
		}},
	)
}
