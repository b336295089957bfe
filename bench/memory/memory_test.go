package memory

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// state is what the process holds.
type state struct {
	heap, stacks       uint64 // bytes
	goroutines, timers int
}

// look collects garbage and returns the memory in use.
func look() state {
	// Twice: what a finalizer or a pool held is gone after the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return state{heap: m.HeapAlloc, stacks: m.StackInuse, goroutines: runtime.NumGoroutine(), timers: timers()}
}

// timers counts the timers that are reachable, by the allocating function.
func timers() (n int) {
	size, _ := runtime.MemProfile(nil, false)
	records := make([]runtime.MemProfileRecord, 2*size+100)
	size, ok := runtime.MemProfile(records, false)
	if !ok {
		panic("the profile has doubled meanwhile")
	}
	for _, r := range records[:size] {
		if madeTimer(r.Stack()) {
			n += int(r.InUseObjects())
		}
	}
	return n
}

func madeTimer(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if f.Function == "time.newTimer" { // under NewTimer, AfterFunc and NewTicker
			return true
		}
		if !more {
			return false
		}
	}
}

// report tells what one of n things costs.
func report(b *testing.B, before, after state, n int, thing string) {
	b.Helper()
	per := func(a, b uint64) float64 { return (float64(a) - float64(b)) / float64(n) }
	b.ReportMetric(per(after.heap, before.heap), "heap-B/"+thing)
	if after.goroutines-before.goroutines >= n {
		b.ReportMetric(per(after.stacks, before.stacks), "stack-B/"+thing)
	}
	b.ReportMetric(float64(after.goroutines-before.goroutines), "goroutines")
	b.ReportMetric(float64(after.timers-before.timers), "timers")
	b.ReportMetric(0, "ns/op") // not measured here
}

// keep makes n limiters, uses each once and measures them idle.
func keep[L any](b *testing.B, make1 func() (L, error), use func(L) bool) {
	b.Helper()
	n := sidebyside.Size(100_000)
	for b.Loop() {
		limiters := make([]L, n)
		before := look()
		for i := range limiters {
			l, err := make1()
			if err != nil {
				b.Fatal(err)
			}
			if !use(l) {
				b.Fatal("refused")
			}
			limiters[i] = l
		}
		report(b, before, look(), n, "limiter")
		runtime.KeepAlive(limiters)
	}
}

func taken(l core.Lease) bool {
	l.Release()
	return l.Acquired()
}

// BenchmarkIdle measures 100,000 limiters of each kind, used once and idle since.
func BenchmarkIdle(b *testing.B) {
	ctx := b.Context()
	sidebyside.Each(b,
		sidebyside.Impl{Name: "sluice-concurrency", Run: func(b *testing.B) {
			keep(b, func() (*core.ConcurrencyLimiter, error) {
				return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10})
			}, func(l *core.ConcurrencyLimiter) bool { return taken(l.TryAcquire(1)) })
		}},
		sidebyside.Impl{Name: "sluice-bucket", Run: func(b *testing.B) {
			keep(b, func() (*core.TokenBucket, error) {
				return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10})
			}, func(l *core.TokenBucket) bool { return taken(l.TryAcquire(1)) })
		}},
		sidebyside.Impl{Name: "sluice-fixed", Run: func(b *testing.B) {
			keep(b, func() (*core.FixedWindow, error) {
				return core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 10, Window: time.Second, QueueLimit: 10})
			}, func(l *core.FixedWindow) bool { return taken(l.TryAcquire(1)) })
		}},
		sidebyside.Impl{Name: "sluice-sliding", Run: func(b *testing.B) {
			keep(b, func() (*core.SlidingWindow, error) {
				return core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 10, Window: time.Second, SegmentsPerWindow: 10, QueueLimit: 10})
			}, func(l *core.SlidingWindow) bool { return taken(l.TryAcquire(1)) })
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			keep(b, func() (*semaphore.Weighted, error) { return semaphore.NewWeighted(10), nil },
				func(s *semaphore.Weighted) bool { defer s.Release(1); return s.TryAcquire(1) })
		}},
		sidebyside.Impl{Name: "channel", Run: func(b *testing.B) {
			keep(b, func() (chan struct{}, error) { return make(chan struct{}, 10), nil },
				func(c chan struct{}) bool { c <- struct{}{}; <-c; return true })
		}},
		sidebyside.Impl{Name: "failsafe-bulkhead", Run: func(b *testing.B) {
			keep(b, func() (bulkhead.Bulkhead[any], error) { return bulkhead.New[any](10), nil },
				func(h bulkhead.Bulkhead[any]) bool { defer h.ReleasePermit(); return h.TryAcquirePermit() })
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			keep(b, func() (*rate.Limiter, error) { return rate.NewLimiter(1, 10), nil }, (*rate.Limiter).Allow)
		}},
		sidebyside.Impl{Name: "juju", Run: func(b *testing.B) {
			keep(b, func() (*ratelimit.Bucket, error) { return ratelimit.NewBucket(time.Second, 10), nil },
				func(l *ratelimit.Bucket) bool { return l.TakeAvailable(1) == 1 })
		}},
		sidebyside.Impl{Name: "uber", Run: func(b *testing.B) {
			keep(b, func() (uber.Limiter, error) { return uber.New(10), nil }, func(l uber.Limiter) bool { l.Take(); return true })
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			keep(b, func() (ratelimiter.RateLimiter[any], error) { return ratelimiter.NewBursty[any](10, time.Second), nil },
				func(l ratelimiter.RateLimiter[any]) bool { return l.TryAcquirePermit() })
		}},
		sidebyside.Impl{Name: "sethvargo", Run: func(b *testing.B) { keepStore(b, ctx) }},
	)
}

// hold measures n goroutines that wait, until they are cancelled.
func hold(b *testing.B, wait func(context.Context)) {
	b.Helper()
	n := sidebyside.Size(10_000)
	warm(n)
	for b.Loop() {
		// One context for all, so that only the wait is measured.
		ctx, cancel := context.WithCancel(b.Context())
		before := look()
		waiting := sidebyside.Waiting()
		var goroutines sync.WaitGroup
		for range n {
			goroutines.Go(func() { wait(ctx) })
		}
		sidebyside.UntilWaiting(b, waiting+n)
		report(b, before, look(), n, "waiter")
		cancel()
		goroutines.Wait()
	}
}

// warm lets the runtime allocate what it keeps for n goroutines, so that no later measurement includes it.
func warm(n int) {
	var goroutines sync.WaitGroup
	stop := make(chan struct{})
	for range n {
		goroutines.Go(func() { <-stop })
	}
	close(stop)
	goroutines.Wait()
}

// BenchmarkWaiters measures 10,000 goroutines that wait for a permit of one limiter; impl=none
// is what a goroutine costs that waits for nothing but its context.
func BenchmarkWaiters(b *testing.B) {
	sidebyside.Each(b,
		sidebyside.Impl{Name: "sluice-concurrency", Run: func(b *testing.B) {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			held := l.TryAcquire(1)
			hold(b, func(ctx context.Context) { _, _ = l.Acquire(ctx, 1) })
			held.Release()
		}},
		sidebyside.Impl{Name: "sluice-bucket", Run: func(b *testing.B) {
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1 << 30,
			})
			if err != nil {
				b.Fatal(err)
			}
			l.TryAcquire(1)
			hold(b, func(ctx context.Context) { _, _ = l.Acquire(ctx, 1) })
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			s := semaphore.NewWeighted(1)
			s.TryAcquire(1)
			hold(b, func(ctx context.Context) { _ = s.Acquire(ctx, 1) })
		}},
		sidebyside.Impl{Name: "channel", Run: func(b *testing.B) {
			c := make(chan struct{})
			hold(b, func(ctx context.Context) {
				select {
				case c <- struct{}{}:
				case <-ctx.Done():
				}
			})
		}},
		sidebyside.Impl{Name: "failsafe-bulkhead", Run: func(b *testing.B) {
			h := bulkhead.New[any](1)
			h.TryAcquirePermit()
			hold(b, func(ctx context.Context) { _ = h.AcquirePermit(ctx) })
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			l.Allow()
			hold(b, func(ctx context.Context) { _ = l.Wait(ctx) })
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			l := ratelimiter.NewBursty[any](1, time.Hour)
			l.TryAcquirePermit()
			hold(b, func(ctx context.Context) { _ = l.AcquirePermit(ctx) })
		}},
		sidebyside.Impl{Name: "none", Run: func(b *testing.B) {
			hold(b, func(ctx context.Context) { <-ctx.Done() })
		}},
	)
}
