package hold_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
)

type ordered struct{ core.Limiter }

func (ordered) QueueOrder() core.QueueOrder { return core.FairShare }

func TestFairShare(t *testing.T) {
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
		require.True(t, hold.FairShare(fair)(), name)
	}
	require.Nil(t, hold.FairShare(core.Unlimited()))
	require.Nil(t, hold.FairShare(core.Must(core.Chain(core.Unlimited()))))
	of := hold.FairShare(core.Must(core.Chain(l)))
	require.False(t, of())
	o.QueueOrder = core.FairShare
	require.NoError(t, l.Update(o))
	require.True(t, of())
}

func TestLimit(t *testing.T) {
	require.Equal(t, 7, hold.Limit(concurrency(t, 7, 0)))
	require.Equal(t, math.MaxInt, hold.Limit(core.Unlimited()))
	require.Equal(t, math.MaxInt, hold.Limit(limiter{}), "it reports none")
}
