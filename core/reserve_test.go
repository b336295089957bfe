package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// reserves makes a reservation of permits that come after that time.
func reserves(tb testing.TB, l core.Limiter, permits int, want time.Duration) core.Lease {
	tb.Helper()
	k := l.(core.Reserver).Reserve(permits)
	require.NoError(tb, k.Err())
	require.Equal(tb, permits, k.Permits())
	got, ok := core.Delay.From(k)
	require.True(tb, ok)
	require.Equal(tb, want, got)
	return k
}

func everySecond(tb testing.TB, burst int) *core.TokenBucket {
	tb.Helper()
	return bucket(tb, core.Every(time.Second, burst))
}

func TestReserveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 3})
		takes(t, l, 5)
		pending := reserves(t, l, 3, 3*time.Second)
		rejection(t, l.Reserve(1).Err(), core.ReasonQueueLimit, 4*time.Second)
		require.NoError(t, l.Close())
		pending.Refund()
		require.Equal(t, pending, pending.Settle(1))
		time.Sleep(time.Hour)
		counts(t, l, 5, 5, 0, 1, 1)
		require.ErrorIs(t, new(core.TokenBucket).Reserve(1).Err(), core.ErrClosed)
	})
}

func TestSettleAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := everySecond(t, 10)
		takes(t, l, 10)
		mark := core.NewMetadataKey[string]("MARK")
		first := reserves(t, l, 5, 5*time.Second).With(mark.With("mine"))
		reserves(t, l, 1, 6*time.Second)
		first = first.Settle(2)
		require.Equal(t, 2, first.Permits())
		d, _ := core.Delay.From(first)
		require.Equal(t, 5*time.Second, d, "it stays what it was")
		reserves(t, l, 1, 4*time.Second)
		require.Equal(t, first, first.Settle(11), "more than the limit")
		first = first.Settle(3)
		reserves(t, l, 1, 6*time.Second)
		time.Sleep(3 * time.Second) // first's have come, and nothing has come since
		settled := first.Settle(1)
		require.Equal(t, 1, settled.Permits())
		text, _ := mark.From(settled)
		require.Equal(t, "mine", text)
		d, _ = core.Delay.From(settled)
		require.Equal(t, 5*time.Second, d)
		require.Zero(t, first.Settle(0).Permits()-3, "it is spent")
		require.Equal(t, 1, l.Statistics().Queued, "two of those behind it are served immediately")
		time.Sleep(time.Second)
		require.Equal(t, 0, l.Statistics().Queued)

		now := reserves(t, everySecond(t, 5), 3, 0).Settle(1)
		require.Equal(t, 1, now.Permits())
		d, ok := core.Delay.From(now)
		require.True(t, ok)
		require.Zero(t, d)
	})
}

func TestReserveByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 2, Window: time.Second, QueueLimit: 2, ManualReplenishment: true})
		takes(t, l, 2)
		k := l.Reserve(2)
		require.True(t, k.Acquired())
		_, ok := core.Delay.From(k)
		require.False(t, ok)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		counts(t, l, 2, 0, 0, 2, 0)
	})
}

func TestReserveInChainsAndViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow, slots := everySecond(t, 5), bucket(t, core.Every(time.Minute, 5)), concurrency(t, 5, 5)
		both := chain(t, fast, core.WithReason(slow, "slow"))
		all := reserves(t, both, 5, 0)
		k := reserves(t, both, 2, 2*time.Minute)
		require.Equal(t, 2, fast.Statistics().Queued)
		k.Refund()
		require.Zero(t, fast.Statistics().Queued+slow.Statistics().Queued)
		backwards := chain(t, slow, fast)
		reserves(t, backwards, 1, time.Minute).Refund()
		all.Refund()
		available(t, both, 5)

		require.NoError(t, slow.Update(core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Minute}))
		takes(t, both, 5)
		rejection(t, both.Reserve(1).Err(), "slow", time.Minute)
		require.Zero(t, fast.Statistics().Queued, "all or none")

		for _, l := range []core.Reserver{
			chain(t, fast, slots), core.WithReason(slots, "x").(core.Reserver), chain(t, core.WithReason(slots, "x")),
		} {
			err := l.Reserve(1).Err()
			require.ErrorContains(t, err, "concurrency limiter")
			require.NotErrorIs(t, err, core.ErrRejected)
		}
		available(t, slots, 5)
		require.Zero(t, fast.Statistics().Queued)
		shadowed := reserves(t, core.Shadow(fast), 1, 0)
		_, ok := core.Shadowed.From(shadowed)
		require.True(t, ok)
		reserves(t, core.Unlimited(), 7, 0)
	})
}

func TestReserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := everySecond(t, 1)
		reserves(t, l, 0, 0)
		takes(t, l, 1)
		reserves(t, l, 0, time.Second)
		reserves(t, l, 0, time.Second)
		reserves(t, l, 1, time.Second)
		reserves(t, l, 0, 2*time.Second)
		counts(t, l, 1, 0, 1, 5, 0)
	})
}
