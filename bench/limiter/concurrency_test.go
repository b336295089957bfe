package limiter

import (
	"context"
	"testing"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"golang.org/x/sync/semaphore"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// enough is a number of permits that the benchmarks without a queue never use up.
const enough = 1024

// newConcurrency returns a limiter that never rejects for want of queue.
func newConcurrency(b *testing.B, permits int) *core.ConcurrencyLimiter {
	b.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// BenchmarkTryAcquireRelease takes a permit that is there and gives it back.
func BenchmarkTryAcquireRelease(b *testing.B) {
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			l := newConcurrency(b, enough)
			for b.Loop() {
				lease := l.TryAcquire(1)
				if !lease.Acquired() {
					b.Fatal("refused")
				}
				lease.Release()
			}
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			s := semaphore.NewWeighted(enough)
			for b.Loop() {
				if !s.TryAcquire(1) {
					b.Fatal("refused")
				}
				s.Release(1)
			}
		}},
		sidebyside.Impl{Name: "channel", Run: func(b *testing.B) {
			c := make(chan struct{}, enough)
			for b.Loop() {
				select {
				case c <- struct{}{}:
				default:
					b.Fatal("refused")
				}
				<-c
			}
		}},
		sidebyside.Impl{Name: "failsafe-bulkhead", Run: func(b *testing.B) {
			h := bulkhead.New[any](enough)
			for b.Loop() {
				if !h.TryAcquirePermit() {
					b.Fatal("refused")
				}
				h.ReleasePermit()
			}
		}},
	)
}

// tryOperations returns, by implementation, a function that does TryAcquire and Release n
// times and returns how often it was refused.
func tryOperations(b *testing.B) map[string]func(n int) (refused int) {
	b.Helper()
	l := newConcurrency(b, enough)
	s := semaphore.NewWeighted(enough)
	c := make(chan struct{}, enough)
	h := bulkhead.New[any](enough)
	return map[string]func(int) int{
		"sluice": func(n int) (refused int) {
			for range n {
				lease := l.TryAcquire(1)
				if !lease.Acquired() {
					refused++
				}
				lease.Release()
			}
			return refused
		},
		"xsync-semaphore": func(n int) (refused int) {
			for range n {
				if !s.TryAcquire(1) {
					refused++
					continue
				}
				s.Release(1)
			}
			return refused
		},
		"channel": func(n int) (refused int) {
			for range n {
				select {
				case c <- struct{}{}:
					<-c
				default:
					refused++
				}
			}
			return refused
		},
		"failsafe-bulkhead": func(n int) (refused int) {
			for range n {
				if !h.TryAcquirePermit() {
					refused++
					continue
				}
				h.ReleasePermit()
			}
			return refused
		},
	}
}

var concurrencyNames = []string{"sluice", "xsync-semaphore", "channel", "failsafe-bulkhead"}

// BenchmarkTryAcquireReleaseAllCores is BenchmarkTryAcquireRelease from as many goroutines
// as there are cores, on one limiter.
func BenchmarkTryAcquireReleaseAllCores(b *testing.B) {
	compareNamed(b, concurrencyNames, tryOperations, allCores)
}

// BenchmarkAcquireRelease takes a permit that is there by the method that could wait.
func BenchmarkAcquireRelease(b *testing.B) {
	cancellable, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"ctx=cancellable", cancellable}, {"ctx=background", context.Background()}} { //nolint:usetesting // the benchmark measures a context that is never done
		b.Run(c.name, func(b *testing.B) { acquireRelease(b, c.ctx) })
	}
}

func acquireRelease(b *testing.B, ctx context.Context) {
	b.Helper()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			l := newConcurrency(b, enough)
			for b.Loop() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				lease.Release()
			}
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			s := semaphore.NewWeighted(enough)
			for b.Loop() {
				if err := s.Acquire(ctx, 1); err != nil {
					b.Fatal(err)
				}
				s.Release(1)
			}
		}},
		sidebyside.Impl{Name: "channel", Run: func(b *testing.B) {
			c := make(chan struct{}, enough)
			for b.Loop() {
				select {
				case c <- struct{}{}:
				case <-ctx.Done():
					b.Fatal(ctx.Err())
				}
				<-c
			}
		}},
		sidebyside.Impl{Name: "failsafe-bulkhead", Run: func(b *testing.B) {
			h := bulkhead.New[any](enough)
			for b.Loop() {
				if err := h.AcquirePermit(ctx); err != nil {
					b.Fatal(err)
				}
				h.ReleasePermit()
			}
		}},
	)
}
