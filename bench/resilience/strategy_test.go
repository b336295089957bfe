// Package resilience compares running a function under a limiter: what a strategy adds to
// its limiter, and what the policies of failsafe-go cost.
package resilience

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

func TestMain(m *testing.M) {
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}

const enough = 1024 // permits

func nothing(context.Context) error { return nil }

func value(context.Context) (int, error) { return 1, nil }

func concurrency(b *testing.B) (*resilience.Strategy, *core.ConcurrencyLimiter) {
	b.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: enough})
	if err != nil {
		b.Fatal(err)
	}
	return strategy(b, l), l
}

func strategy(b *testing.B, l core.Limiter) *resilience.Strategy {
	b.Helper()
	s, err := resilience.Limit(l)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func bucket(b *testing.B) *core.TokenBucket {
	b.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1 << 40, TokensPerPeriod: 1_000_000, ReplenishmentPeriod: time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkExecute runs a function that does nothing under a permit that is there.
func BenchmarkExecute(b *testing.B) {
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice-do", Run: func(b *testing.B) {
			s, _ := concurrency(b)
			for b.Loop() {
				if s.Do(ctx, nothing) != nil {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "sluice-execute", Run: func(b *testing.B) {
			s, _ := concurrency(b)
			for b.Loop() {
				if _, err := resilience.Execute(ctx, s, value); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "bare-limiter", Run: func(b *testing.B) {
			_, l := concurrency(b)
			for b.Loop() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = value(ctx)
				lease.Release()
			}
		}},
		sidebyside.Impl{Name: "failsafe-bulkhead", Run: func(b *testing.B) {
			executor := failsafe.With(bulkhead.New[int](enough)).WithContext(ctx)
			for b.Loop() {
				if _, err := executor.Get(func() (int, error) { return 1, nil }); err != nil {
					b.Fatal(err)
				}
			}
		}},
	)
}

// BenchmarkExecuteAtARate runs a function that does nothing under a rate limiter that has
// permits.
func BenchmarkExecuteAtARate(b *testing.B) {
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			s := strategy(b, bucket(b))
			for b.Loop() {
				if _, err := resilience.Execute(ctx, s, value); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "bare-limiter", Run: func(b *testing.B) {
			l := bucket(b)
			for b.Loop() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = value(ctx)
				lease.Release()
			}
		}},
		sidebyside.Impl{Name: "failsafe-ratelimiter", Run: func(b *testing.B) {
			executor := failsafe.With(ratelimiter.NewBursty[int](1<<40, time.Second)).WithContext(ctx)
			for b.Loop() {
				if _, err := executor.Get(func() (int, error) { return 1, nil }); err != nil {
					b.Fatal(err)
				}
			}
		}},
	)
}
