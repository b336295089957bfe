package core_test

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A window returns the permits that would come back first: then no window of time has more grants than the limit.
func TestGiveBackOfTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		takes(t, l, 5)
		time.Sleep(time.Second)
		takes(t, l, 3)
		l.GiveBack(4)
		available(t, l, 6)
		time.Sleep(2 * time.Second)
		available(t, l, 7) // the one that was left of the first five
	})
}

// A bucket that takes longer than there are instants to be full again gets all back, but for
// the token of the tick that may have come right after the grant.
func TestARefundToABucketThatIsNeverFullAgain(t *testing.T) {
	for name, manual := range map[string]bool{"automatic": false, "manual": true} {
		for _, period := range []time.Duration{time.Second, math.MaxInt64} {
			t.Run(name+", a token every "+period.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := bucket(t, core.TokenBucketOptions{
						TokenLimit: math.MaxInt, TokensPerPeriod: 1, ReplenishmentPeriod: period, ManualReplenishment: manual,
					})
					all := takes(t, l, math.MaxInt)
					all.Refund()
					available(t, l, math.MaxInt)

					time.Sleep(1) // a grant of the instant of a refund gives less back
					a := takes(t, l, math.MaxInt-7)
					time.Sleep(1500 * time.Millisecond) // a token comes, or is due
					b := takes(t, l, 5)
					a.Refund()
					tick := 1
					if manual || math.MaxInt == math.MaxInt32 && period == time.Second { // the ticks are known
						tick = 0
					}
					available(t, l, math.MaxInt-5-tick)
					b.Refund()
					available(t, l, math.MaxInt-tick)
				})
			})
		}
	}
}

// A rate limiter remembers nothing of a lease: each refund returns permits, up to a full limiter.
func TestEachRefundOfARateLimitersLeaseCounts(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		if holds(l) {
			return
		}
		lease := takes(t, l, 2)
		takes(t, l, 3)
		lease.Refund()
		available(t, l, 2)
		lease.Refund()
		available(t, l, 4)
		lease.Refund()
		available(t, l, 5)
		require.Equal(t, 1, lease.Settle(1).Permits())
		available(t, l, 5)
	})
}

// holds reports whether l's leases hold permits, so that they are settled once.
func holds(l core.Limiter) bool {
	_, concurrency := core.As[*core.ConcurrencyLimiter](l)
	_, chain := core.As[*core.ChainedLimiter](l)
	return concurrency || chain
}

// A chain has forgotten the parts of a lease that was settled to zero permits.
func TestSettleToZeroAndFromZero(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		for name, over := range map[string]everything{
			"itself": l, "view": core.WithReason(l, "full").(everything), "chain": chain(t, l),
		} {
			lease := takes(t, over, 3).With(core.Remaining.With(77))
			none := lease.Settle(-7)
			require.True(t, none.Acquired())
			require.Zero(t, none.Permits())
			left, _ := core.Remaining.From(none)
			require.Equal(t, 77, left)
			available(t, l, 5)
			none.Refund()
			some := none.Settle(2)
			if name == "chain" {
				require.Equal(t, none, some)
				some = takes(t, over, 0).Settle(2)
			}
			available(t, l, 3)
			some.Settle(0)
			available(t, l, 5)
		}
	})
}

// The leases of Unlimited, and those that Shadow lets pass, take any number of permits.
func TestSettleWhatHoldsNothing(t *testing.T) {
	full := concurrency(t, 1, 0)
	takes(t, full, 1)
	added := core.NewMetadataKey[string]("ADDED")
	for name, l := range map[string]everything{
		"unlimited": core.Unlimited().(everything), "shadow": core.Shadow(full).(everything),
		"reason": core.WithReason(core.Unlimited(), "no").(everything), "chain": chain(t, core.Unlimited()),
	} {
		for _, lease := range []core.Lease{takes(t, l, 3), takes(t, l, 3).With(added.With("it")), takes(t, l, math.MaxInt)} {
			for _, n := range []int{7, math.MaxInt, 2, -1} {
				settled := lease.Settle(n)
				require.True(t, settled.Acquired(), name)
				require.Equal(t, max(n, 0), settled.Permits(), name)
				require.Equal(t, maps.Collect(lease.Metadata()), maps.Collect(settled.Metadata()), name)
				lease = settled
			}
		}
	}
	available(t, full, 0)
}

// However old the grant is: its ticks lie further apart than an int64 of nanoseconds reaches.
func TestALateRefundAfterCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 1 << 62 // 146 years
		o := core.TokenBucketOptions{TokenLimit: 40, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 1)
		o.ReplenishmentPeriod = period // the tick before the next one is centuries ago
		require.NoError(t, l.Update(o))
		a := takes(t, l, 20)
		time.Sleep(period + 2*time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 27)
		takes(t, l, 20)
		a.Refund()
		available(t, l, 20) // without it, only the last twenty
	})
}

// A grant of a bucket that is settled twice returns what one of the fewer permits would.
func TestAGrantThatIsSettledInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: 4 * time.Second})
		a := takes(t, l, 2)
		time.Sleep(5 * time.Second)
		takes(t, l, 1)
		a = a.Settle(1)
		available(t, l, 1)
		a.Refund() // had it been none from the beginning, the one would still be out
		available(t, l, 1)
	})
}

// settles is a Granter of a rate limiter.
type settles func(had, now int) int

func (f settles) Settle(had, now int) int { return f(had, now) }

// settlesAndReleases is a Granter whose leases hold permits.
type settlesAndReleases struct {
	settles
	release func(permits int)
}

func (g settlesAndReleases) Release(permits int) { g.release(permits) }

func TestALeaseOfGrantIsSettledToZero(t *testing.T) {
	released := 0
	for _, release := range []func(){nil, func() { released++ }} {
		lease := core.Grant(3, release, core.LimiterName.With("mine"))
		require.Equal(t, lease, lease.Settle(5))
		require.Equal(t, lease, lease.Settle(2))
		none := lease.Settle(-1)
		require.True(t, none.Acquired())
		require.Zero(t, none.Permits())
		name, _ := core.LimiterName.From(none)
		require.Equal(t, "mine", name)
		require.Equal(t, none, none.Settle(4))
		lease.Release()
		lease.Refund()
	}
	require.Equal(t, 1, released)
	core.Grant(0, func() { released++ }).Refund()
	require.Equal(t, 2, released)
}

func TestALeaseWithoutPermitsIsSettledUpEachTime(t *testing.T) {
	var told [][2]int
	g := settlesAndReleases{func(had, now int) int {
		told = append(told, [2]int{had, now})
		return now
	}, func(permits int) { told = append(told, [2]int{permits, -1}) }}
	for _, none := range []core.Lease{core.GrantFrom(g, 0), core.GrantFrom(g, 5).Settle(0)} {
		told = nil
		none.Release()
		none.Refund()
		a, b := none.Settle(2), none.Settle(3)
		a.Release()
		a.Release()
		b.Settle(1).Refund()
		require.Equal(t, [][2]int{{0, 2}, {0, 3}, {2, -1}, {3, 1}, {1, 0}}, told)
	}
	require.ErrorIs(t, core.GrantFrom(g, -1).Err(), core.ErrNegativePermits)
}

// A lease that its granter cannot settle stays as it is, with all its copies.
func TestALeaseThatCannotBeSettled(t *testing.T) {
	for name, parts := range map[string]int{"itself": 0, "chain": 1} {
		t.Run(name, func(t *testing.T) {
			released := 0
			lease := core.GrantFrom(settlesAndReleases{
				func(had, _ int) int { return had }, func(permits int) { released += permits },
			}, 3)
			settled := lease.Settle(5)
			require.Equal(t, lease, settled)
			lease.Refund()
			require.Zero(t, released)
			require.Equal(t, 3, lease.Permits())
			if parts > 0 {
				l := chain(t, &stranger{try: func(int) core.Lease { return lease }})
				takes(t, l, 3).Refund() // it holds nothing afterwards
			} else {
				lease.With(core.LimiterName.With("x")).Release()
			}
			lease.Release()
			require.Equal(t, 3, released)
		})
	}
}

func TestAGranterThatPanicsLosesNothing(t *testing.T) {
	released := 0
	g := settlesAndReleases{func(int, int) int { panic("settle") }, func(permits int) { released += permits }}
	slots, rate := concurrency(t, 5, 0), bucket(t, core.Every(time.Hour, 5))
	bad := &stranger{try: func(n int) core.Lease { return core.GrantFrom(g, n) }}
	for name, l := range map[string]core.Limiter{"itself": bad, "chain": chain(t, slots, bad, rate)} {
		for _, n := range []int{0, 1, 4} {
			released = 0
			lease := takes(t, l, 2)
			require.PanicsWithValue(t, "settle", func() { lease.Settle(n) }, name)
			lease.Release()
			lease.Refund()
			require.Equal(t, lease, lease.Settle(3))
			require.Equal(t, 2, released)
			available(t, slots, 5)
			available(t, rate, 5)
		}
	}
}

// What a copy asks for while the lease is being settled happens afterwards, if the lease is still there.
func TestCallsDuringASettlement(t *testing.T) {
	for name, c := range map[string]struct {
		during func(core.Lease)
		keeps  bool
		want   []string
	}{
		"release, settled": {core.Lease.Release, false, []string{"3 to 1", "1 released"}},
		"release, kept":    {core.Lease.Release, true, []string{"3 to 1", "3 released"}},
		"refund, settled":  {core.Lease.Refund, false, []string{"3 to 1", "1 released"}},
		"refund, kept":     {core.Lease.Refund, true, []string{"3 to 1", "3 to 0"}},
		"settle, kept":     {func(l core.Lease) { l.Settle(2) }, true, []string{"3 to 1", "3 released"}},
		"both, kept":       {func(l core.Lease) { l.Refund(); l.Release() }, true, []string{"3 to 1", "3 released"}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			var lease core.Lease
			lease = core.GrantFrom(settlesAndReleases{func(had, now int) int {
				told = append(told, fmt.Sprintf("%d to %d", had, now))
				if now > 0 {
					c.during(lease)
					if c.keeps {
						return had
					}
				}
				return now
			}, func(permits int) { told = append(told, fmt.Sprintf("%d released", permits)) }}, 3)
			settled := lease.Settle(1)
			settled.Release()
			settled.Release()
			require.Equal(t, c.want, told)
		})
	}
}

// Of all that copies of a lease ask for at the same time, its granter is told once, and one call after another.
func TestAGranterIsToldOnce(t *testing.T) {
	slots := concurrency(t, 5, 0)
	for range 2000 {
		mine, calls := slots.TryAcquire(3), 0 // no lock guards them: the race detector looks on
		lease := core.GrantFrom(settlesAndReleases{func(had, now int) int {
			calls++
			if now == 2 {
				return had
			}
			mine = mine.Settle(now)
			return now
		}, func(int) {
			calls++
			mine.Release()
		}}, 3)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if i == 0 {
					lease.Release()
					return
				}
				settled := lease.Settle(i)
				settled.Release()
			})
		}
		wg.Wait()
		lease.Release()
		require.Positive(t, calls)
		available(t, slots, 5)
	}
}
