package core_test

import (
	"context"
	"testing"
	"testing/synctest"
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
	l["switch"] = core.NewSwitch(concurrency(tb, limit, 0))
	l["switch of a chain"] = core.NewSwitch(core.WithReason(chain(tb, concurrency(tb, limit, 0), core.NewSwitch(l["bucket"])), "full"))
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

func TestAllocations(t *testing.T) {
	for name, l := range plenty(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			k := l.(everything)
			allocates(t, 0, func() { // a grant, a second one beside it, a probe, a settlement, and the reports
				a, b := l.TryAcquire(1), l.TryAcquire(2)
				a.Release()
				b.Release()
				l.TryAcquire(0).Release()
				l.TryAcquire(3).Settle(2).Release()
				l.Available()
				k.Statistics()
				k.IdleFor()
			})
			allocates(t, 0, func() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				lease.Release()
			})
		})
	}
	// What a service that is overloaded does most must be cheap.
	for name, l := range empty(t) {
		t.Run("rejected by "+name, func(t *testing.T) {
			ctx := t.Context()
			allocates(t, 0, func() {
				for _, n := range []int{1, 0, -1, 6} {
					if l.TryAcquire(n).Acquired() {
						t.Error("granted")
					}
				}
			})
			allocates(t, 1, func() {
				if lease, err := l.Acquire(ctx, 1); err == nil || lease.Err() != err { //nolint:errorlint // that very one
					t.Error("granted, or of two minds")
				}
			})
			for _, n := range []int{1, 6} {
				allocates(t, 1, func() { _ = l.TryAcquire(n).Err() })
			}
		})
	}
	l := bucket(t, core.PerSecond(1e9, 1e9))
	allocates(t, 0, func() { l.Reserve(1) })
	full := bucket(t, core.Every(time.Hour, 1))
	takes(t, full, 1)
	allocates(t, 2, func() { full.Reserve(1).Refund() })
	full = bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1, QueueOrder: core.FairShare})
	takes(t, full, 1)
	allocates(t, 2, func() { full.Reserve(1).Refund() })
}

// A wait in an idle limiter makes its queue, the channel and the timer anew.
func TestAllocationsOfAWait(t *testing.T) {
	for name, over := range map[string]func(core.Limiter) core.Limiter{
		"itself":            func(l core.Limiter) core.Limiter { return l },
		"view":              func(l core.Limiter) core.Limiter { return core.WithReason(l, "full") },
		"chain":             func(l core.Limiter) core.Limiter { return chain(t, core.Unlimited(), l) },
		"chain of a view":   func(l core.Limiter) core.Limiter { return chain(t, core.WithReason(l, "full")) },
		"switch":            func(l core.Limiter) core.Limiter { return core.NewSwitch(l) },
		"chain in a chain":  func(l core.Limiter) core.Limiter { return chain(t, core.Unlimited(), chain(t, chain(t, l))) },
		"chain in a switch": func(l core.Limiter) core.Limiter { return core.NewSwitch(chain(t, l)) },
		"switch in a chain": func(l core.Limiter) core.Limiter { return chain(t, core.NewSwitch(core.NewSwitch(l))) },
		"switch of a view":  func(l core.Limiter) core.Limiter { return core.NewSwitch(core.WithReason(l, "full")) },
	} {
		t.Run(name, func(t *testing.T) {
			eachOfFour(t, 1, 1, func(t *testing.T, bare everything) {
				l := over(bare)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				lease := takes(t, l, 1)
				free := func() { lease.Release() }
				timer := time.AfterFunc(time.Second/2, free) // before the permits of a rate limiter come
				allocates(t, 4, func() {
					lease, _ = l.Acquire(ctx, 1)
					timer.Reset(time.Second / 2)
				})
				synctest.Wait()
				require.True(t, lease.Acquired())
			})
		})
	}
}

// So does a wait under FairShare, and one of another flow beside it.
func TestAllocationsOfAFairWait(t *testing.T) {
	for name, flows := range map[string][]core.Flow{
		"one flow":       {{Key: "a"}},
		"two flows":      {{Key: "a"}, {Key: "b", Weight: 2}},
		"two priorities": {{Key: "a"}, {Key: "a", Priority: 1}},
	} {
		for kind, most := range map[string]int{"concurrency": 3, "bucket": 4} {
			t.Run(name+" in a "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := map[string]everything{
						"concurrency": core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 9, QueueOrder: core.FairShare})),
						"bucket":      bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 9, QueueOrder: core.FairShare}),
					}[kind]
					begin, ended := make(chan bool), make(chan core.Lease)
					defer close(begin)
					for _, f := range flows {
						ctx := core.WithFlow(t.Context(), f)
						go func() {
							for range begin {
								lease, _ := l.Acquire(ctx, 1)
								lease.Release()
								ended <- lease
							}
						}()
					}
					var lease core.Lease
					timer := time.AfterFunc(time.Hour, func() { lease.Release() })
					allocates(t, most*len(flows), func() {
						lease = l.TryAcquire(1)
						timer.Reset(time.Second / 2) // before the permits of the bucket come
						for range flows {
							begin <- true
						}
						for range flows {
							if lease := <-ended; !lease.Acquired() {
								t.Error(lease.Err())
							}
						}
					})
				})
			})
		}
	}
}
