package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// plenty returns one limiter of each kind that has permits for the whole of a test, and
// chains of them; empty ones have none left.
func plenty(tb testing.TB) map[string]core.Limiter {
	tb.Helper()
	const limit = 1 << 30
	l := map[string]core.Limiter{
		"concurrency": concurrency(tb, limit, 0),
		"bucket":      bucket(tb, core.TokenBucketOptions{Name: "b", TokenLimit: limit, TokensPerPeriod: 1000, ReplenishmentPeriod: time.Millisecond}),
		"bandwidth":   bucket(tb, core.TokenBucketOptions{TokenLimit: 1 << 20, TokensPerPeriod: 100, ReplenishmentPeriod: time.Microsecond}),
		"fixed":       fixed(tb, core.FixedWindowOptions{PermitLimit: limit, Window: time.Hour}),
		"calendar":    fixed(tb, core.FixedWindowOptions{PermitLimit: limit, Calendar: core.Yearly(nil)}),
		"sliding":     sliding(tb, core.SlidingWindowOptions{PermitLimit: limit, Window: time.Hour, SegmentsPerWindow: 60}),
		"unlimited":   core.Unlimited(),
		"fair":        core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: limit, QueueLimit: 10, QueueOrder: core.FairShare})),
	}
	l["chain"] = chain(tb, concurrency(tb, limit, 0), l["bucket"], l["sliding"])
	l["chain of chains"] = chain(tb, chain(tb, concurrency(tb, limit, 0)), chain(tb, l["fixed"], l["bucket"]))
	l["reasoned"] = core.WithReason(concurrency(tb, limit, 0), "full")
	return l
}

func empty(tb testing.TB) map[string]core.Limiter {
	tb.Helper()
	l := map[string]core.Limiter{
		"concurrency": concurrency(tb, 5, 0),
		"bucket":      bucket(tb, core.TokenBucketOptions{Name: "b", TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}),
		"fixed":       fixed(tb, core.FixedWindowOptions{PermitLimit: 5, Window: time.Hour}),
		"calendar":    fixed(tb, core.FixedWindowOptions{PermitLimit: 5, Calendar: core.Yearly(nil)}),
		"sliding":     sliding(tb, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Hour, SegmentsPerWindow: 60}),
	}
	for _, k := range l {
		takes(tb, k, 5)
	}
	l["chain"] = chain(tb, concurrency(tb, 5, 0), l["bucket"])
	return l
}

func allocates(t *testing.T, want int, f func()) {
	t.Helper()
	if testkit.Race {
		t.Skip("sync.Pool drops at random")
	}
	require.LessOrEqual(t, int(testing.AllocsPerRun(2000, f)), want) // it is a whole number
}

func TestGrantAndReleaseAllocateNothing(t *testing.T) {
	for name, l := range plenty(t) {
		t.Run(name+"/TryAcquire", func(t *testing.T) {
			allocates(t, 0, func() { l.TryAcquire(1).Release() })
		})
		t.Run(name+"/Acquire", func(t *testing.T) {
			ctx := t.Context()
			allocates(t, 0, func() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				lease.Release()
			})
		})
		t.Run(name+"/two at once", func(t *testing.T) {
			allocates(t, 0, func() {
				a, b := l.TryAcquire(1), l.TryAcquire(2)
				a.Release()
				b.Release()
			})
		})
		t.Run(name+"/probe", func(t *testing.T) {
			allocates(t, 0, func() { l.TryAcquire(0).Release() })
		})
	}
}

func TestRefusalAllocatesNothing(t *testing.T) {
	for name, l := range empty(t) {
		for _, n := range []int{1, 0, -1, 6} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				allocates(t, 0, func() {
					if l.TryAcquire(n).Acquired() {
						t.Error("granted")
					}
				})
			})
		}
	}
}

// What a service that is overloaded does most must be cheap.
func TestARejectedAcquireAllocatesOnce(t *testing.T) {
	for name, l := range empty(t) {
		ctx := t.Context()
		t.Run(name, func(t *testing.T) {
			allocates(t, 1, func() {
				if lease, err := l.Acquire(ctx, 1); err == nil || lease.Err() != err { //nolint:errorlint // that very one
					t.Error("granted, or of two minds")
				}
			})
		})
		t.Run(name+"/Err of a try", func(t *testing.T) {
			allocates(t, 1, func() {
				if l.TryAcquire(1).Err() == nil {
					t.Error("granted")
				}
			})
		})
		t.Run(name+"/Err of too many", func(t *testing.T) {
			allocates(t, 1, func() {
				if l.TryAcquire(6).Err() == nil {
					t.Error("granted")
				}
			})
		})
	}
}

func TestDiagnosticsAllocateNothing(t *testing.T) {
	for name, l := range plenty(t) {
		t.Run(name, func(t *testing.T) {
			allocates(t, 0, func() {
				l.Available()
				l.(core.Reporter).Statistics()
				l.(core.Idler).IdleFor()
			})
		})
	}
}

func BenchmarkTryAcquire(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.TryAcquire(1).Release()
			}
		})
	}
}

func BenchmarkTryAcquireParallel(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.TryAcquire(1).Release()
				}
			})
		})
	}
}

func BenchmarkRefused(b *testing.B) {
	for name, l := range empty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.TryAcquire(1)
			}
		})
	}
}

func BenchmarkAcquire(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				lease.Release()
			}
		})
	}
}

// BenchmarkQueue has more callers than permits: most grants go through the queue.
func BenchmarkQueue(b *testing.B) {
	for name, l := range map[string]core.Limiter{
		"concurrency": concurrency(b, 1, 1<<20),
		"bucket": bucket(b, core.TokenBucketOptions{
			TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Microsecond, QueueLimit: 1 << 20,
		}),
		"fixed": fixed(b, core.FixedWindowOptions{PermitLimit: 10, Window: time.Microsecond, QueueLimit: 1 << 20}),
	} {
		b.Run("limiter="+name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					lease, err := l.Acquire(ctx, 1)
					if err != nil {
						b.Error(err)
						return
					}
					lease.Release()
				}
			})
		})
	}
}
