package hold_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/partition"
)

type ordered struct{ core.Limiter }

func (ordered) QueueOrder() core.QueueOrder { return core.FairShare }

func TestOrder(t *testing.T) {
	o := core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1}
	l := core.Must(core.NewConcurrencyLimiter(o))
	b := core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: 1, QueueOrder: core.FairShare}
	f := core.FixedWindowOptions{PermitLimit: 1, Window: 1, QueueOrder: core.FairShare}
	s := core.SlidingWindowOptions{PermitLimit: 1, Window: 1, SegmentsPerWindow: 1, QueueOrder: core.FairShare}
	for name, fair := range map[string]core.Limiter{
		"bucket":  core.Must(core.NewTokenBucket(b)),
		"fixed":   core.Must(core.NewFixedWindow(f)),
		"sliding": core.Must(core.NewSlidingWindow(s)),
		"view":    core.WithReason(core.Must(core.NewTokenBucket(b)), "later"),
		"chain":   core.Must(core.Chain(l, core.Unlimited(), core.Must(core.NewTokenBucket(b)))),
		"other":   ordered{core.Unlimited()},
	} {
		require.Equal(t, core.FairShare, hold.Order(fair), name)
	}
	require.Equal(t, core.OldestFirst, hold.Order(core.Unlimited()))
	require.Equal(t, core.OldestFirst, hold.Order(core.Must(core.Chain(core.Unlimited()))))
	chain := core.Must(core.Chain(l))
	require.Equal(t, core.OldestFirst, hold.Order(chain))
	o.QueueOrder = core.FairShare
	require.NoError(t, l.Update(o))
	require.Equal(t, core.FairShare, hold.Order(chain))
}

// The order of what a Switch and a key have now counts.
func TestOrderOfWhatIsExchanged(t *testing.T) {
	oldest, newest := concurrency(t, 1, 0), core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: 1, QueueOrder: core.NewestFirst,
	}))
	s := core.NewSwitch(core.WithReason(oldest, "busy"))
	require.Equal(t, core.OldestFirst, hold.Order(core.Must(core.Chain(s))))
	s.Set(newest)
	require.Equal(t, core.NewestFirst, hold.Order(core.Must(core.Chain(s))))
	keyed := core.Must(partition.NewByKey(func(string) (core.Limiter, error) { return newest, nil }))
	key := partition.For(keyed, "a")
	require.Equal(t, core.OldestFirst, hold.Order(key), "it is not live")
	key.TryAcquire(1).Release()
	require.Equal(t, core.NewestFirst, hold.Order(key))
}

func TestReplenishes(t *testing.T) {
	held, rate := concurrency(t, 1, 0), core.Must(core.NewTokenBucket(core.PerSecond(1, 1)))
	for _, l := range []core.Limiter{rate, core.Must(core.Chain(held, rate)), core.NewSwitch(rate), core.WithReason(rate, "r")} {
		require.True(t, hold.Replenishes(l), "%v", l)
	}
	for _, l := range []core.Limiter{held, core.Must(core.Chain(held)), core.NewSwitch(held), core.Unlimited(), limiter{}} {
		require.False(t, hold.Replenishes(l), "%v", l)
	}
}

func TestLimit(t *testing.T) {
	require.Equal(t, 7, hold.Limit(concurrency(t, 7, 0)))
	require.Equal(t, math.MaxInt, hold.Limit(core.Unlimited()))
	require.Equal(t, math.MaxInt, hold.Limit(limiter{}), "it reports none")
}
