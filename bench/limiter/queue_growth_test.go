package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// BenchmarkQueueCancel cancels a waiter anywhere in the queue, who then queues again at its
// end: the queue keeps its length, and no caller is ever served.
func BenchmarkQueueCancel(b *testing.B) {
	sizes := sidebyside.Sizes(1, 10, 100, 1000, 10_000, 100_000)
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			sidebyside.Over(b, "queue", sizes, func(b *testing.B, n int) {
				l := newConcurrency(b, 1)
				held := l.TryAcquire(1)
				cancelAnywhere(b, n, func(ctx context.Context) error {
					_, err := l.Acquire(ctx, 1)
					return err
				})
				held.Release()
			})
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			sidebyside.Over(b, "queue", sizes, func(b *testing.B, n int) {
				s := semaphore.NewWeighted(1)
				s.TryAcquire(1)
				cancelAnywhere(b, n, func(ctx context.Context) error { return s.Acquire(ctx, 1) })
			})
		}},
	)
}

// cancelAnywhere keeps n goroutines in wait and cancels one of them at random, b.N times.
// An operation ends when the cancelled wait has returned.
func cancelAnywhere(b *testing.B, n int, wait func(context.Context) error) {
	b.Helper()
	before := sidebyside.Waiting()
	stop := make(chan struct{})
	returned := make(chan struct{})
	cancels := make([]chan context.CancelFunc, n)
	var goroutines sync.WaitGroup
	for i := range cancels {
		cancels[i] = make(chan context.CancelFunc, 1)
		goroutines.Go(func() {
			for {
				// Of b.Context() it would be one of many children, and take its mutex.
				ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // see above
				cancels[i] <- cancel
				if err := wait(ctx); !errors.Is(err, context.Canceled) {
					b.Errorf("served: %v", err)
				}
				select {
				case returned <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	sidebyside.UntilWaiting(b, before+n)
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		cancel := <-cancels[random.IntN(n)]
		cancel()
		<-returned
	}
	close(stop)
	for _, c := range cancels {
		cancel := <-c
		cancel()
	}
	goroutines.Wait()
}

// BenchmarkQueueEvict lets a newcomer into a full queue that serves the newest first, which
// evicts the oldest. No rival has a bounded queue that does this.
func BenchmarkQueueEvict(b *testing.B) {
	sidebyside.Compare(b, sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
		sidebyside.Over(b, "queue", sidebyside.Sizes(1, 10, 100, 1000, 10_000, 100_000), evict)
	}})
}

// evict keeps n goroutines in a queue of n and one outside. Told to, that one queues; an
// operation ends when the one that it evicts has returned, to be told next.
func evict(b *testing.B, n int) {
	b.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: 1, QueueLimit: n, QueueOrder: core.NewestFirst,
	})
	if err != nil {
		b.Fatal(err)
	}
	held := l.TryAcquire(1)
	before := sidebyside.Waiting()
	ctx := b.Context()
	turn, evicted := make(chan struct{}), make(chan struct{})
	var goroutines sync.WaitGroup
	for range n + 1 {
		goroutines.Go(func() {
			for range turn {
				_, err := l.Acquire(ctx, 1)
				switch {
				case errors.Is(err, core.ErrClosed):
					return
				case !errors.Is(err, core.ErrRejected):
					b.Errorf("not evicted: %v", err)
				}
				evicted <- struct{}{}
			}
		})
	}
	for range n {
		turn <- struct{}{}
	}
	sidebyside.UntilWaiting(b, before+n+1)
	for b.Loop() {
		turn <- struct{}{}
		<-evicted
	}
	close(turn)
	_ = l.Close()
	goroutines.Wait()
	held.Release()
}
