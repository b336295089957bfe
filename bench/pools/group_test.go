package pools

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/worker"
)

// BenchmarkGroupOfTen runs ten empty tasks in a group and waits for them: what a request does that asks ten
// backends. Ours is a Group of a pool that many requests share, without a queue.
func BenchmarkGroupOfTen(b *testing.B) {
	const tasks = 10
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			p := newPool(b, workers, 0)
			task := func(context.Context) error { return nil }
			for b.Loop() {
				g := p.Group(ctx)
				for range tasks {
					g.Go(task)
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "errgroup", Run: func(b *testing.B) {
			task := func() error { return nil }
			for b.Loop() {
				g, _ := errgroup.WithContext(ctx)
				g.SetLimit(workers)
				for range tasks {
					g.Go(task)
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "sluice-map", Run: func(b *testing.B) {
			p := newPool(b, workers, 0)
			in := func(yield func(int) bool) {
				for i := 0; i < tasks && yield(i); i++ {
				}
			}
			task := func(_ context.Context, i int) (int, error) { return i, nil }
			for b.Loop() {
				for _, err := range worker.Map(ctx, p, in, task) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		}},
	)
}
