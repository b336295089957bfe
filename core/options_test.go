package core_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// What is in force is what was given, to New or to the latest Update that was good.
func TestOptionsAreThoseInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.FixedZone("here", 3600))
		c := core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: 3, QueueLimit: 4, QueueOrder: core.NewestFirst}
		slots, err := core.NewConcurrencyLimiter(c)
		require.NoError(t, err)
		require.Equal(t, c, slots.Options())
		c = core.ConcurrencyLimiterOptions{PermitLimit: math.MaxInt, QueueLimit: math.MaxInt}
		require.NoError(t, slots.Update(c))
		require.Error(t, slots.Update(core.ConcurrencyLimiterOptions{}))
		require.Equal(t, c, slots.Options())
		require.NoError(t, slots.Close())
		require.Equal(t, c, slots.Options(), "after Close")

		b := core.TokenBucketOptions{
			Name: "b", TokenLimit: math.MaxInt, TokensPerPeriod: 7, ReplenishmentPeriod: 13,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		tokens := bucket(t, b)
		require.Equal(t, b, tokens.Options())
		b = core.PerSecond(20, 1)
		require.NoError(t, tokens.Update(b))
		require.Equal(t, b, tokens.Options())

		f := core.FixedWindowOptions{
			Name: "f", PermitLimit: 3, Window: time.Hour, Anchor: midnight,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		hours := fixed(t, f)
		require.Equal(t, f, hours.Options())
		f.Anchor = time.Now() // with a monotonic reading
		require.NoError(t, hours.Update(f))
		require.Equal(t, f, hours.Options())
		f.Anchor = time.Time{}
		require.NoError(t, hours.Update(f))
		require.Equal(t, f, hours.Options())

		s := core.SlidingWindowOptions{
			Name: "s", PermitLimit: 3, Window: time.Hour, SegmentsPerWindow: 60, Anchor: midnight,
			QueueLimit: 9, QueueOrder: core.NewestFirst, ManualReplenishment: true,
		}
		sliding := sliding(t, s)
		require.Equal(t, s, sliding.Options())
		s = core.SlidingWindowOptions{PermitLimit: 4, Window: time.Minute, SegmentsPerWindow: 1}
		require.NoError(t, sliding.Update(s))
		require.Equal(t, s, sliding.Options())
	})
}

func TestOptionsOfAZeroLimiterAreZero(t *testing.T) {
	require.Zero(t, new(core.ConcurrencyLimiter).Options())
	require.Zero(t, new(core.TokenBucket).Options())
	require.Zero(t, new(core.FixedWindow).Options())
	require.Zero(t, new(core.SlidingWindow).Options())
	require.Zero(t, new(core.TokenBucket).QueueOrder())
}

// A grid that begins at the limiter's creation stays where it is.
func TestUpdateWithTheOptionsKeepsTheGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second})
		s := sliding(t, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 4})
		time.Sleep(300 * time.Millisecond)
		takes(t, f, 2)
		takes(t, s, 2)
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			require.NoError(t, f.Update(f.Options()))
			require.NoError(t, s.Update(s.Options()))
		}
		rejected(t, f, 5, 400*time.Millisecond)
		rejected(t, s, 5, 650*time.Millisecond)
		o := f.Options()
		require.True(t, o.Anchor.IsZero())
		o.PermitLimit = 9
		require.NoError(t, f.Update(o))
		rejected(t, f, 9, 400*time.Millisecond)
	})
}

func TestMoreTokensThanTheBucketHoldsIsAnError(t *testing.T) {
	// The natural port of rate.NewLimiter(20, 1), which would give one a second.
	o := core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 20, ReplenishmentPeriod: time.Second}
	_, err := core.NewTokenBucket(o)
	require.ErrorContains(t, err, "core: TokenBucketOptions.TokensPerPeriod = 20, want at most ")
	require.ErrorContains(t, err, "core.PerSecond")
	l := bucket(t, core.PerSecond(20, 1))
	require.ErrorContains(t, l.Update(o), "core.PerSecond")
	require.Equal(t, core.PerSecond(20, 1), l.Options())

	// Of a bad limit nothing follows.
	o.TokenLimit = 0
	_, err = core.NewTokenBucket(o)
	require.EqualError(t, err, "core: TokenBucketOptions.TokenLimit = 0, want at least 1")
}
