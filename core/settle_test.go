package core_test

import (
	"maps"
	"math"
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
					l.Refund(all)
					available(t, l, math.MaxInt)

					time.Sleep(1) // a grant of the instant of a refund gives less back
					a := takes(t, l, math.MaxInt-7)
					time.Sleep(1500 * time.Millisecond) // a token comes, or is due
					b := takes(t, l, 5)
					l.Refund(a)
					tick := 1
					if manual || math.MaxInt == math.MaxInt32 && period == time.Second { // the ticks are known
						tick = 0
					}
					available(t, l, math.MaxInt-5-tick)
					l.Refund(b)
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
		l.Refund(lease)
		available(t, l, 2)
		l.Refund(lease)
		available(t, l, 4)
		l.Refund(lease)
		available(t, l, 5)
		require.Equal(t, 1, l.Settle(lease, 1).Permits())
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
			none := over.Settle(lease, -7)
			require.True(t, none.Acquired())
			require.Zero(t, none.Permits())
			left, _ := core.Remaining.From(none)
			require.Equal(t, 77, left)
			available(t, l, 5)
			over.Refund(none)
			some := over.Settle(none, 2)
			if name == "chain" {
				require.Equal(t, none, some)
				some = over.Settle(takes(t, over, 0), 2)
			}
			available(t, l, 3)
			over.Settle(some, 0)
			available(t, l, 5)
		}
	})
}

// Unlimited and Shadow settle their own leases to any number of permits, and leave those of others alone.
func TestSettleWhatHoldsNothing(t *testing.T) {
	full := concurrency(t, 1, 0)
	takes(t, full, 1)
	other := core.Shadow(full).(everything)
	added := core.NewMetadataKey[string]("ADDED")
	for name, l := range map[string]everything{
		"unlimited": core.Unlimited().(everything), "shadow": core.Shadow(full).(everything),
		"reason": core.WithReason(core.Unlimited(), "no").(everything), "chain": chain(t, core.Unlimited()),
	} {
		for _, lease := range []core.Lease{takes(t, l, 3), takes(t, l, 3).With(added.With("it")), takes(t, l, math.MaxInt)} {
			for _, n := range []int{7, math.MaxInt, 2, -1} {
				settled := l.Settle(lease, n)
				require.True(t, settled.Acquired(), name)
				require.Equal(t, max(n, 0), settled.Permits(), name)
				require.Equal(t, maps.Collect(lease.Metadata()), maps.Collect(settled.Metadata()), name)
				lease = settled
			}
		}
		for _, foreign := range []core.Lease{
			{},
			core.Reject(), core.Grant(3, nil), core.Grant(3, func() { t.Error("released") }),
			core.Grant(3, nil, core.Shadowed.With(core.ErrClosed)),
			takes(t, other, 3), takes(t, core.Unlimited(), 3), takes(t, concurrency(t, 5, 0), 1),
		} {
			require.Equal(t, foreign, l.Settle(foreign, 5), name)
			l.Refund(foreign)
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
		l.Refund(a)
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
		a = l.Settle(a, 1)
		available(t, l, 1)
		l.Refund(a) // had it been none from the beginning, the one would still be out
		available(t, l, 1)
	})
}
