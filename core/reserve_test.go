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

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := everySecond(t, 5)
		reserves(t, l, 5, 0)
		reserves(t, l, 2, 2*time.Second)
		second := reserves(t, l, 3, 5*time.Second)
		require.Equal(t, core.Statistics{Limit: 5, Queued: 5, Granted: 1}, l.Statistics())
		w := queues(t, l, 1) // behind them
		reserves(t, l, 1, 7*time.Second)
		rejected(t, l, 1, 8*time.Second)
		time.Sleep(2 * time.Second)
		require.Equal(t, 5, l.Statistics().Queued)
		require.Equal(t, uint64(2), l.Statistics().Granted)

		l.Refund(second) // the waiter comes three seconds sooner
		l.Refund(second)
		time.Sleep(time.Second - 1)
		w.waits(t)
		time.Sleep(1)
		w.granted(t)
		require.Equal(t, 1, l.Statistics().Queued)
		time.Sleep(time.Second)
		require.Equal(t, core.Statistics{Limit: 5, Granted: 4, Rejected: 1}, l.Statistics())
		for name, want := range map[string]any{"LIMITER_NAME": nil, "PERMIT_LIMIT": 5, "DELAY": 5 * time.Second} {
			found := any(nil)
			for n, v := range second.Metadata() {
				if n == name {
					found = v
				}
			}
			require.Equal(t, want, found, name)
		}
	})
}

func TestReserveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 3})
		require.ErrorIs(t, l.Reserve(-1).Err(), core.ErrNegativePermits)
		require.ErrorIs(t, l.Reserve(6).Err(), core.ErrPermitsExceedLimit)
		takes(t, l, 5)
		pending := reserves(t, l, 3, 3*time.Second)
		k := l.Reserve(1)
		rejection(t, k.Err(), core.ReasonQueueLimit, 4*time.Second)
		_, ok := core.Delay.From(k)
		require.False(t, ok)
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Reserve(1).Err(), core.ErrClosed)
		l.Refund(pending)
		require.Equal(t, pending, l.Settle(pending, 1))
		time.Sleep(time.Hour)
		require.Equal(t, core.Statistics{Limit: 5, Available: 5, Granted: 1, Rejected: 1}, l.Statistics())
		require.ErrorIs(t, new(core.TokenBucket).Reserve(1).Err(), core.ErrClosed)
		require.False(t, core.Lease{}.Acquired())
	})
}

func TestSettleAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := everySecond(t, 10)
		takes(t, l, 10)
		mark := core.NewMetadataKey[string]("MARK")
		first := reserves(t, l, 5, 5*time.Second).With(mark.With("mine"))
		reserves(t, l, 1, 6*time.Second)
		first = l.Settle(first, 2)
		require.Equal(t, 2, first.Permits())
		d, _ := core.Delay.From(first)
		require.Equal(t, 5*time.Second, d, "it stays what it was")
		reserves(t, l, 1, 4*time.Second)
		require.Equal(t, first, l.Settle(first, 11), "more than the limit")
		first = l.Settle(first, 3)
		reserves(t, l, 1, 6*time.Second)
		time.Sleep(3 * time.Second) // first's have come, and nothing has come since
		settled := l.Settle(first, 1)
		require.Equal(t, 1, settled.Permits())
		text, _ := mark.From(settled)
		require.Equal(t, "mine", text)
		d, _ = core.Delay.From(settled)
		require.Equal(t, 5*time.Second, d)
		require.Zero(t, l.Settle(first, 0).Permits()-3, "it is spent")
		require.Equal(t, 1, l.Statistics().Queued, "two of those behind it are served immediately")
		time.Sleep(time.Second)
		require.Equal(t, 0, l.Statistics().Queued)

		now := reserves(t, everySecond(t, 5), 3, 0)
		require.Equal(t, now, l.Settle(now, 1), "another limiter's")
	})
}

func TestReservationsMoveWithTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.Every(time.Second, 4)
		l := bucket(t, o)
		takes(t, l, 4)
		reserves(t, l, 4, 4*time.Second)
		reserves(t, l, 2, 6*time.Second)
		l.GiveBack(3)
		reserves(t, l, 1, 4*time.Second)
		o.TokenLimit = 3
		require.NoError(t, l.Update(o)) // ends the first
		require.Equal(t, core.Statistics{Limit: 3, Granted: 3}, l.Statistics())
		reserves(t, l, 2, 2*time.Second)
		l.Reset()
		available(t, l, 1)
	})
	synctest.Test(t, func(t *testing.T) { // the newest first
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 4, QueueOrder: core.NewestFirst})
		takes(t, l, 4)
		old := reserves(t, l, 3, 3*time.Second)
		reserves(t, l, 2, 2*time.Second)
		require.Equal(t, core.Statistics{Limit: 4, Queued: 2, Granted: 1, Rejected: 1}, l.Statistics())
		l.Refund(old)
		time.Sleep(3 * time.Second)
		available(t, l, 1)
	})
	synctest.Test(t, func(t *testing.T) { // by hand
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 2, Window: time.Second, QueueLimit: 2, ManualReplenishment: true})
		takes(t, l, 2)
		k := l.Reserve(2)
		require.True(t, k.Acquired())
		_, ok := core.Delay.From(k)
		require.False(t, ok)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		require.Equal(t, core.Statistics{Limit: 2, Granted: 2}, l.Statistics())
	})
}

func TestReserveInChainsAndViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow, slots := everySecond(t, 5), bucket(t, core.Every(time.Minute, 5)), concurrency(t, 5, 5)
		both := chain(t, fast, core.WithReason(slow, "slow"))
		all := reserves(t, both, 5, 0)
		k := reserves(t, both, 2, 2*time.Minute)
		require.Equal(t, 2, fast.Statistics().Queued)
		both.Refund(k)
		require.Zero(t, fast.Statistics().Queued+slow.Statistics().Queued)
		backwards := chain(t, slow, fast)
		backwards.Refund(reserves(t, backwards, 1, time.Minute))
		both.Refund(all)
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
