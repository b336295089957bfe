package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// newConcurrency returns a concurrency limiter in whose queue any number of callers can wait.
func newConcurrency(tb testing.TB, permits int) *core.ConcurrencyLimiter {
	tb.Helper()
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: 1 << 30}))
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

func tryLimiter(l *core.ConcurrencyLimiter) operation {
	return func(n int) (permitted int) {
		for range n {
			lease := l.TryAcquire(1)
			if lease.Acquired() {
				permitted++
			}
			lease.Release()
		}
		return permitted
	}
}

func trySemaphore(s *semaphore.Weighted) operation {
	return func(n int) (permitted int) {
		for range n {
			if s.TryAcquire(1) {
				permitted++
				s.Release(1)
			}
		}
		return permitted
	}
}

func acquireLimiter(ctx context.Context, l *core.ConcurrencyLimiter) operation {
	return func(n int) (permitted int) {
		for range n {
			lease, err := l.Acquire(ctx, 1)
			if err == nil {
				permitted++
			}
			lease.Release()
		}
		return permitted
	}
}

func acquireSemaphore(ctx context.Context, s *semaphore.Weighted) operation {
	return func(n int) (permitted int) {
		for range n {
			if s.Acquire(ctx, 1) == nil {
				permitted++
				s.Release(1)
			}
		}
		return permitted
	}
}

// BenchmarkConcurrency takes an available permit and releases it.
func BenchmarkConcurrency(b *testing.B) {
	const permits = 1024 // more than are ever held
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, work := range []struct {
		name       string
		goroutines int
		ours       func(*core.ConcurrencyLimiter) operation
		theirs     func(*semaphore.Weighted) operation
	}{
		{"try", 1, tryLimiter, trySemaphore},
		{"try-all-cores", runtime.GOMAXPROCS(0), tryLimiter, trySemaphore},
		{
			"acquire", 1,
			func(l *core.ConcurrencyLimiter) operation { return acquireLimiter(ctx, l) },
			func(s *semaphore.Weighted) operation { return acquireSemaphore(ctx, s) },
		},
	} {
		b.Run("work="+work.name, func(b *testing.B) {
			compare(b,
				impl{"sluice", func(b *testing.B) { measure(b, work.goroutines, true, work.ours(newConcurrency(b, permits))) }},
				impl{"semaphore", func(b *testing.B) { measure(b, work.goroutines, true, work.theirs(semaphore.NewWeighted(permits))) }},
			)
		})
	}
}

// BenchmarkHandOver passes permits from waiter to waiter: all goroutines are in the queue, and each one that gets a
// permit releases it to the next one and queues again.
func BenchmarkHandOver(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, size := range []struct{ goroutines, permits int }{{16, 1}, {1000, 2}} {
		b.Run(fmt.Sprintf("goroutines=%d/permits=%d", size.goroutines, size.permits), func(b *testing.B) {
			compare(b,
				impl{"sluice", func(b *testing.B) {
					l := newConcurrency(b, size.permits)
					handOver(b, size.goroutines, l.TryAcquire(size.permits).Release, acquireLimiter(ctx, l))
				}},
				impl{"semaphore", func(b *testing.B) {
					permits := int64(size.permits)
					s := semaphore.NewWeighted(permits)
					s.TryAcquire(permits)
					handOver(b, size.goroutines, func() { s.Release(permits) }, acquireSemaphore(ctx, s))
				}},
			)
		})
	}
}

// All limiters have a rate and a burst that no caller can use up.
const (
	perSecond = 1_000_000_000
	burst     = 1_000_000
)

func newBucket() *core.TokenBucket {
	return core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: burst, TokensPerPeriod: perSecond / 1000, ReplenishmentPeriod: time.Millisecond,
	}))
}

func tryBucket(l *core.TokenBucket) operation {
	return func(n int) (permitted int) {
		for range n {
			if lease := l.TryAcquire(1); lease.Acquired() {
				permitted++
			}
		}
		return permitted
	}
}

func allow(l *rate.Limiter) operation {
	return func(n int) (permitted int) {
		for range n {
			if l.Allow() {
				permitted++
			}
		}
		return permitted
	}
}

// BenchmarkRate takes an available permit of a rate limiter. In work=rejected, no permit is available for an hour.
func BenchmarkRate(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	theirs := func(b *testing.B) operation { return allow(rate.NewLimiter(perSecond, burst)) }
	for _, work := range []struct {
		name         string
		goroutines   int
		permitted    bool
		ours, theirs func(b *testing.B) operation
	}{
		{"bucket", 1, true, func(b *testing.B) operation { return tryBucket(newBucket()) }, theirs},
		{"bucket-all-cores", runtime.GOMAXPROCS(0), true, func(b *testing.B) operation { return tryBucket(newBucket()) }, theirs},
		{"bucket-acquire", 1, true, func(b *testing.B) operation {
			l := newBucket()
			return func(n int) (permitted int) {
				for range n {
					if _, err := l.Acquire(ctx, 1); err == nil {
						permitted++
					}
				}
				return permitted
			}
		}, func(b *testing.B) operation {
			l := rate.NewLimiter(perSecond, burst)
			return func(n int) (permitted int) {
				for range n {
					if l.Wait(ctx) == nil {
						permitted++
					}
				}
				return permitted
			}
		}},
		{"bucket-rejected", 1, false, func(b *testing.B) operation {
			l := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
			l.TryAcquire(1)
			return tryBucket(l)
		}, func(b *testing.B) operation {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			l.Allow()
			return allow(l)
		}},
		{"fixed-window", 1, true, func(b *testing.B) operation {
			l := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: perSecond, Window: time.Second}))
			return func(n int) (permitted int) {
				for range n {
					if lease := l.TryAcquire(1); lease.Acquired() {
						permitted++
					}
				}
				return permitted
			}
		}, theirs},
		{"sliding-window", 1, true, func(b *testing.B) operation {
			l := core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: perSecond, Window: time.Second, SegmentsPerWindow: 10}))
			return func(n int) (permitted int) {
				for range n {
					if lease := l.TryAcquire(1); lease.Acquired() {
						permitted++
					}
				}
				return permitted
			}
		}, theirs},
	} {
		b.Run("work="+work.name, func(b *testing.B) {
			compare(b,
				impl{"sluice", func(b *testing.B) { measure(b, work.goroutines, work.permitted, work.ours(b)) }},
				impl{"x-time-rate", func(b *testing.B) { measure(b, work.goroutines, work.permitted, work.theirs(b)) }},
			)
		})
	}
}

// BenchmarkLiveKey takes a permit of the next of 1,000 keys. All of them are in use.
func BenchmarkLiveKey(b *testing.B) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "client-" + strconv.Itoa(i)
	}
	run := func(b *testing.B, try func(key string) bool) {
		b.Helper()
		operation := func(n int) (permitted int) {
			i := 0
			for range n {
				if try(keys[i]) {
					permitted++
				}
				i++
				if i == len(keys) {
					i = 0
				}
			}
			return permitted
		}
		operation(len(keys))
		measure(b, 1, true, operation)
	}
	compare(b,
		impl{"sluice", func(b *testing.B) {
			k := core.Must(partition.New(partition.Options[string, string]{
				Key:         func(key string) string { return key },
				New:         func(string) (core.Limiter, error) { return newBucket(), nil },
				IdleTimeout: time.Hour, // no key is evicted, however slow the machine is
			}))
			defer func() { _ = k.Close() }()
			run(b, func(key string) bool { return k.TryAcquire(key, 1).Acquired() })
		}},
		impl{"sync.Map", func(b *testing.B) {
			var m sync.Map
			run(b, func(key string) bool {
				l, ok := m.Load(key)
				if !ok {
					l, _ = m.LoadOrStore(key, newBucket())
				}
				return l.(*core.TokenBucket).TryAcquire(1).Acquired()
			})
		}},
	)
}
