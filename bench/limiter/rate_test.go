package limiter

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// refill is one way to let 1e9 permits per second through, which no caller can use up.
// Every implementation gets the same rate and the same burst.
type refill struct {
	name   string
	tokens int           // per period
	period time.Duration // of replenishment
	burst  int
}

var refills = []refill{
	{"refill=1ns", 1, time.Nanosecond, 1_000_000},            // full again at each call
	{"refill=1ms", 1_000_000, time.Millisecond, 1_000_000},   // taken from within a period, mostly
	{"refill=1s", 1_000_000_000, time.Second, 1_000_000_000}, // hardly ever replenished
}

// plenty is the one that the benchmarks with one way take.
var plenty = refills[1]

const perSecond = 1_000_000_000

func newBucket(b *testing.B, r refill) *core.TokenBucket {
	b.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: r.burst, TokensPerPeriod: r.tokens, ReplenishmentPeriod: r.period, QueueLimit: 1 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func newFixedWindow(b *testing.B, permits int) *core.FixedWindow {
	b.Helper()
	l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: permits, Window: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func newSlidingWindow(b *testing.B, permits int) *core.SlidingWindow {
	b.Helper()
	l, err := core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: permits, Window: time.Second, SegmentsPerWindow: 10})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func newStore(b *testing.B, ctx context.Context, tokens uint64) limiter.Store {
	b.Helper()
	s, err := memorystore.New(&memorystore.Config{Tokens: tokens, Interval: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(ctx) })
	return s
}

// BenchmarkRateTry takes a permit of a rate limiter that has one, without waiting.
func BenchmarkRateTry(b *testing.B) {
	for _, r := range refills {
		b.Run(r.name, func(b *testing.B) { rateTry(b, r) })
	}
}

func rateTry(b *testing.B, r refill) {
	b.Helper()
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			l := newBucket(b, r)
			for b.Loop() {
				if lease := l.TryAcquire(1); !lease.Acquired() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(perSecond, r.burst)
			for b.Loop() {
				if !l.Allow() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "juju", Run: func(b *testing.B) {
			l := ratelimit.NewBucketWithQuantum(r.period, int64(r.burst), int64(r.tokens))
			for b.Loop() {
				if l.TakeAvailable(1) != 1 {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			// It has no burst beside its rate: a period's permits at once.
			l := ratelimiter.NewBursty[any](uint(plenty.tokens), plenty.period)
			for b.Loop() {
				if !l.TryAcquirePermit() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "sethvargo", Run: func(b *testing.B) {
			s := newStore(b, ctx, perSecond)
			for b.Loop() {
				if _, _, _, ok, err := s.Take(ctx, "key"); !ok || err != nil {
					b.Fatal("refused", err)
				}
			}
		}},
	)
}

// BenchmarkWindow takes a permit of a window that has one. The rivals are those of
// BenchmarkRateTry, of which failsafe-go's bursty limiter and sethvargo's are fixed windows.
func BenchmarkWindow(b *testing.B) {
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice-fixed", Run: func(b *testing.B) {
			l := newFixedWindow(b, perSecond)
			for b.Loop() {
				if lease := l.TryAcquire(1); !lease.Acquired() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(perSecond, perSecond)
			for b.Loop() {
				if !l.Allow() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "sluice-sliding", Run: func(b *testing.B) {
			l := newSlidingWindow(b, perSecond)
			for b.Loop() {
				if lease := l.TryAcquire(1); !lease.Acquired() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			l := ratelimiter.NewBursty[any](perSecond, time.Second)
			for b.Loop() {
				if !l.TryAcquirePermit() {
					b.Fatal("refused")
				}
			}
		}},
		sidebyside.Impl{Name: "sethvargo", Run: func(b *testing.B) {
			s := newStore(b, ctx, perSecond)
			for b.Loop() {
				if _, _, _, ok, err := s.Take(ctx, "key"); !ok || err != nil {
					b.Fatal("refused", err)
				}
			}
		}},
	)
}

// BenchmarkRateRefused asks a rate limiter that has nothing, for an hour to come.
func BenchmarkRateRefused(b *testing.B) {
	ctx := b.Context()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			rejects(b, newBucket(b, refill{tokens: 1, period: time.Hour, burst: 1}))
		}},
		sidebyside.Impl{Name: "sluice-fixed", Run: func(b *testing.B) {
			l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1, Window: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			rejects(b, l)
		}},
		sidebyside.Impl{Name: "sluice-sliding", Run: func(b *testing.B) {
			l, err := core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 1, Window: time.Hour, SegmentsPerWindow: 10})
			if err != nil {
				b.Fatal(err)
			}
			rejects(b, l)
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(rate.Every(time.Hour), 1)
			l.Allow()
			for b.Loop() {
				if l.Allow() {
					b.Fatal("granted")
				}
			}
		}},
		sidebyside.Impl{Name: "juju", Run: func(b *testing.B) {
			l := ratelimit.NewBucket(time.Hour, 1)
			l.TakeAvailable(1)
			for b.Loop() {
				if l.TakeAvailable(1) != 0 {
					b.Fatal("granted")
				}
			}
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			l := ratelimiter.NewBursty[any](1, time.Hour)
			l.TryAcquirePermit()
			for b.Loop() {
				if l.TryAcquirePermit() {
					b.Fatal("granted")
				}
			}
		}},
		sidebyside.Impl{Name: "sethvargo", Run: func(b *testing.B) {
			s, err := memorystore.New(&memorystore.Config{Tokens: 1, Interval: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close(ctx) })
			_, _, _, _, _ = s.Take(ctx, "key")
			for b.Loop() {
				if _, _, _, ok, err := s.Take(ctx, "key"); ok || err != nil {
					b.Fatal("granted", err)
				}
			}
		}},
	)
}

// rejects takes the only permit and asks for more.
func rejects[L core.Limiter](b *testing.B, l L) {
	b.Helper()
	l.TryAcquire(1)
	for b.Loop() {
		if lease := l.TryAcquire(1); lease.Acquired() {
			b.Fatal("granted")
		}
	}
}

// BenchmarkRateAcquire takes a permit that is there by the method that could wait.
func BenchmarkRateAcquire(b *testing.B) {
	for _, r := range refills {
		b.Run(r.name, func(b *testing.B) { rateAcquire(b, r) })
	}
}

func rateAcquire(b *testing.B, r refill) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sidebyside.Compare(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			l := newBucket(b, r)
			for b.Loop() {
				if _, err := l.Acquire(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "xtime-rate", Run: func(b *testing.B) {
			l := rate.NewLimiter(perSecond, r.burst)
			for b.Loop() {
				if err := l.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}},
		sidebyside.Impl{Name: "juju", Run: func(b *testing.B) {
			l := ratelimit.NewBucketWithQuantum(r.period, int64(r.burst), int64(r.tokens))
			for b.Loop() {
				l.Wait(1) // knows no context
			}
		}},
		sidebyside.Impl{Name: "uber", Run: func(b *testing.B) {
			l := uber.New(perSecond) // knows no context, and no burst beyond 10
			for b.Loop() {
				l.Take()
			}
		}},
		sidebyside.Impl{Name: "failsafe-bursty", Run: func(b *testing.B) {
			l := ratelimiter.NewBursty[any](uint(plenty.tokens), plenty.period)
			for b.Loop() {
				if err := l.AcquirePermit(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}},
	)
}
