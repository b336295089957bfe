package channel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// limiters returns a limiter of core's by itself, in a chain, and as users wrap it.
func limiters(t *testing.T, l *core.ConcurrencyLimiter) map[string]core.Limiter {
	t.Helper()
	chain, err := core.Chain(l)
	require.NoError(t, err)
	return map[string]core.Limiter{"itself": l, "chain": chain, "wrapped": wrapped{l}, "reason": core.WithReason(l, "busy")}
}

// wrapped is a user's limiter that embeds one of core's.
type wrapped struct{ *core.ConcurrencyLimiter }

// dropping returns a channel, and the items that it dropped so far.
func dropping(t *testing.T, o channel.Options[int]) (*channel.LimitedChannel[int], *[]int) {
	t.Helper()
	var dropped []int
	o.OnDrop = func(v int) { dropped = append(dropped, v) }
	return open(t, o), &dropped
}

func TestEvictionStops(t *testing.T) {
	bubble(t, "at the first item that frees nothing", func(t *testing.T) {
		l := bucket(t, 3, 0)
		c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: channel.DropOldest})
		sends(t, c, 1, 2, 3)
		err := c.TrySend(4)
		refuses(t, err, "permits exhausted")
		var rejected *core.RejectedError
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, time.Second, rejected.RetryAfter)
		require.Equal(t, []int{1}, *dropped, "a rate limiter's permits do not come back by dropping")
		time.Sleep(time.Second)
		sends(t, c, 5)
		holds(t, c, 2, 3, 5)
	})
	t.Run("at the first of a limiter that is replenished by hand", func(t *testing.T) {
		l, err := core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true,
		})
		require.NoError(t, err)
		c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: channel.DropNewest})
		sends(t, c, 1, 2, 3)
		refuses(t, c.TrySend(4), "permits exhausted")
		require.Equal(t, []int{3}, *dropped)
	})
	bubble(t, "at the rate in a chain, not at the bound", func(t *testing.T) {
		held := refusing(t, 2)
		l, err := core.Chain(held, bucket(t, 3, 0))
		require.NoError(t, err)
		c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: channel.DropOldest})
		sends(t, c, 1, 2, 3)
		require.Equal(t, []int{1}, *dropped)
		refuses(t, c.TrySend(4), "permits exhausted")
		require.Equal(t, []int{1, 2}, *dropped)
		holds(t, c, 3)
		require.Equal(t, 2, held.Available())
	})
	bubble(t, "not when others get what it frees", func(t *testing.T) {
		counted := permits(t, 3)
		for name, l := range limiters(t, counted) {
			c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: channel.DropOldest})
			sends(t, c, 1, 2, 3)
			other := start(func() (core.Lease, error) { return counted.Acquire(t.Context(), 1) })
			sends(t, c, 4)
			require.Equal(t, []int{1, 2}, *dropped, name)
			lease := other.ends(t, nil)
			holds(t, c, 3, 4)
			lease.Release()
		}
	})
}

func TestALimiterThatGrantsNothingEvictsNothing(t *testing.T) {
	for _, shut := range []core.Limiter{core.Blocked(), core.WithReason(core.Paused(), "upkeep")} {
		for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest} {
			l := core.NewSwitch(refusing(t, 2))
			c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: mode, Cost: itself})
			sends(t, c, 1, 1)
			l.Set(shut)
			require.ErrorIs(t, c.TrySend(1), core.ErrRejected)
			require.ErrorIs(t, c.Send(t.Context(), 0), core.ErrRejected)
			require.Empty(t, *dropped)
			holds(t, c, 1, 1)
		}
	}
}

func TestClosedLimiterEvictsNothing(t *testing.T) {
	for mode := channel.Wait; mode <= channel.DropIncoming; mode++ {
		for _, wrap := range []func(*core.ConcurrencyLimiter) core.Limiter{
			func(l *core.ConcurrencyLimiter) core.Limiter { return l },
			func(l *core.ConcurrencyLimiter) core.Limiter { return wrapped{l} },
		} {
			counted := refusing(t, 2)
			l := wrap(counted)
			c, dropped := dropping(t, channel.Options[int]{Limiter: l, Overflow: mode})
			sends(t, c, 1, 2)
			require.NoError(t, counted.Close())
			require.ErrorIs(t, c.TrySend(3), core.ErrClosed)
			require.ErrorIs(t, c.Send(t.Context(), 3), core.ErrClosed)
			require.Empty(t, *dropped)
			holds(t, c, 1, 2)
		}
	}
}

func TestOverflowText(t *testing.T) {
	for _, o := range []channel.Overflow{channel.Wait, channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
		text, err := o.MarshalText()
		require.NoError(t, err)
		var back channel.Overflow
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, o, back)
	}
	var o channel.Overflow
	require.ErrorContains(t, o.UnmarshalText([]byte("drop")), `"drop"`)
	_, err := channel.Overflow(9).MarshalText()
	require.Error(t, err)
	require.Equal(t, "Overflow(9)", channel.Overflow(9).String())
}
