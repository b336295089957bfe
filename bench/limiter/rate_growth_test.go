package limiter

import (
	"testing"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// sethvargo's limiter is not among them: from many goroutines it refuses one now and then that
// it has a permit for, where two of its windows meet, and rejections must not be timed.
var rateNames = []string{"sluice", "xtime-rate", "juju", "uber", "failsafe-bursty"}

// rateOperations returns, by implementation, a function that takes a permit n times and
// returns how often it was refused.
func rateOperations(r refill) func(b *testing.B) map[string]func(n int) (refused int) {
	return func(b *testing.B) map[string]func(int) int {
		b.Helper()
		ours := newBucket(b, r)
		theirs := rate.NewLimiter(perSecond, r.burst)
		juju := ratelimit.NewBucketWithQuantum(r.period, int64(r.burst), int64(r.tokens))
		ubers := uber.New(perSecond)
		bursty := ratelimiter.NewBursty[any](uint(plenty.tokens), plenty.period)
		count := func(n int, try func() bool) (refused int) {
			for range n {
				if !try() {
					refused++
				}
			}
			return refused
		}
		return map[string]func(int) int{
			"sluice": func(n int) (refused int) {
				for range n {
					if lease := ours.TryAcquire(1); !lease.Acquired() {
						refused++
					}
				}
				return refused
			},
			"xtime-rate": func(n int) (refused int) {
				for range n {
					if !theirs.Allow() {
						refused++
					}
				}
				return refused
			},
			"juju":            func(n int) int { return count(n, func() bool { return juju.TakeAvailable(1) == 1 }) },
			"uber":            func(n int) int { return count(n, func() bool { ubers.Take(); return true }) },
			"failsafe-bursty": func(n int) int { return count(n, bursty.TryAcquirePermit) },
		}
	}
}

// BenchmarkRateTryAllCores is BenchmarkRateTry from as many goroutines as there are cores,
// on one limiter.
func BenchmarkRateTryAllCores(b *testing.B) {
	for _, r := range refills {
		b.Run(r.name, func(b *testing.B) { compareNamed(b, rateNames, rateOperations(r), allCores) })
	}
}

// BenchmarkRateTryGoroutines is the same from 1 to 256 goroutines.
func BenchmarkRateTryGoroutines(b *testing.B) {
	compareNamed(b, rateNames, rateOperations(plenty), overGoroutines)
}

// BenchmarkManyLimiters takes from one limiter after the other of very many, each in its
// own place in memory: what it costs when nothing is in the cache.
func BenchmarkManyLimiters(b *testing.B) {
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice-bucket", Run: func(b *testing.B) {
			overLimiters(b, bareBucket,
				func(l *core.TokenBucket) bool { return l.TryAcquire(1).Acquired() })
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			overLimiters(b, func(*testing.B) *rate.Limiter { return rate.NewLimiter(perSecond, plenty.burst) },
				(*rate.Limiter).Allow)
		}},
		sidebyside.Impl{Name: "sluice-concurrency", Run: func(b *testing.B) {
			overLimiters(b, bareConcurrency,
				func(l *core.ConcurrencyLimiter) bool {
					lease := l.TryAcquire(1)
					lease.Release()
					return lease.Acquired()
				})
		}},
		sidebyside.Impl{Name: "xsync-semaphore", Run: func(b *testing.B) {
			overLimiters(b, func(*testing.B) *semaphore.Weighted { return semaphore.NewWeighted(enough) },
				func(s *semaphore.Weighted) bool {
					ok := s.TryAcquire(1)
					s.Release(1)
					return ok
				})
		}},
	)
}

// overLimiters asks 1 to 1,000,000 limiters, in an order that the processor cannot foresee.
func overLimiters[L any](b *testing.B, make1 func(*testing.B) L, take func(L) bool) {
	b.Helper()
	sidebyside.Over(b, "limiters", sidebyside.Sizes(1, 10, 100, 1000, 10_000, 100_000, 1_000_000), func(b *testing.B, n int) {
		limiters := make([]L, n)
		for i := range limiters {
			limiters[i] = make1(b)
		}
		// A step that shares no factor with n visits all of them.
		const step = 7_368_787
		i := 0
		for b.Loop() {
			if !take(limiters[i]) {
				b.Fatal("refused")
			}
			i = (i + step) % n
		}
	})
}

// bareBucket and bareConcurrency are without the Cleanup that a million of them need not.
func bareBucket(b *testing.B) *core.TokenBucket {
	b.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: plenty.burst, TokensPerPeriod: plenty.tokens, ReplenishmentPeriod: plenty.period,
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func bareConcurrency(b *testing.B) *core.ConcurrencyLimiter {
	b.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: enough})
	if err != nil {
		b.Fatal(err)
	}
	return l
}
