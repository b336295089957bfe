package meter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

func TestReturnsWithTime(t *testing.T) {
	bucket := core.Must(core.NewTokenBucket(core.PerSecond(1000, 10)))
	fixed := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1, Window: time.Second}))
	sliding := core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 1, Window: time.Second, SegmentsPerWindow: 1}))
	held := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	chain := func(limiters ...core.Limiter) core.Limiter { return core.Must(core.Chain(limiters...)) }
	keyed := core.Must(partition.New(partition.Options[string, string]{
		Key: func(s string) string { return s }, New: func(string) (core.Limiter, error) { return bucket, nil },
	}))
	type embedding struct{ *core.TokenBucket }
	for _, l := range []core.Limiter{
		bucket, fixed, sliding, chain(bucket, fixed), core.WithReason(bucket, "r"), core.Shadow(bucket),
		core.WithReason(chain(core.WithReason(fixed, "r"), bucket), "r"),
		core.NewSwitch(bucket), core.WithReason(core.NewSwitch(bucket), "r"), core.NewSwitch(nil),
	} {
		require.True(t, ways.ReturnsWithTime(l), "%v", l)
	}
	for _, l := range []core.Limiter{
		held, chain(held, bucket), chain(bucket, core.WithReason(held, "r")), core.WithReason(held, "r"), core.Shadow(held),
		embedding{bucket},
		core.WithReason(embedding{bucket}, "r"), chain(bucket, embedding{bucket}),
		partition.For(keyed, "a"), chain(partition.For(keyed, "a")), core.WithReason(partition.For(keyed, "a"), "r"),
		strange{bucket},
		viewing{bucket},
		core.NewSwitch(held), chain(bucket, core.NewSwitch(held)), core.NewSwitch(viewing{bucket}),
		core.WithReason(viewing{bucket}, "r"), core.WithReason(nil, "r"), core.Shadow(nil),
	} {
		require.False(t, ways.ReturnsWithTime(l), "%v", l)
	}
	// A key is what it asks, once it has a limiter.
	require.True(t, partition.For(keyed, "b").TryAcquire(1).Acquired())
	require.True(t, ways.ReturnsWithTime(partition.For(keyed, "b")))
	s := core.NewSwitch(bucket)
	s.Set(held)
	require.False(t, ways.ReturnsWithTime(s))
}

func TestWithout(t *testing.T) {
	slots, other := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})), core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	rate := core.Must(core.NewTokenBucket(core.PerSecond(1000, 10)))
	chain := func(limiters ...core.Limiter) core.Limiter { return core.Must(core.Chain(limiters...)) }
	type embedding struct{ *core.ConcurrencyLimiter }
	below := ways.Roots(chain(slots, rate), false)
	for _, c := range []struct{ of, want core.Limiter }{
		{slots, nil},
		{core.WithReason(slots, "r"), nil},
		{other, other},
		{rate, rate}, // no caller holds its permits
		{chain(slots, other), other},
		{chain(slots, rate), rate},
	} {
		rest, err := without(c.of, below)
		require.NoError(t, err)
		require.Equal(t, c.want, rest)
	}
	rest, err := without(chain(slots, other, rate), below)
	require.NoError(t, err)
	require.Equal(t, []core.Limiter{other, rate}, ways.Roots(rest, false))
	_, err = without(&embedding{slots}, below)
	require.ErrorContains(t, err, "would wait for itself")
}

// viewing is a user's view.
type viewing struct{ core.Limiter }

func (v viewing) Unwrap() core.Limiter { return v.Limiter }

// strange is a user's limiter.
type strange struct{ core.Limiter }
