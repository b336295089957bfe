package core_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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
		for _, n := range []int{1, 4, 6, 11} {
			require.Equal(t, first, first.Settle(n), "its permits have not come")
		}
		require.Equal(t, 6, l.Statistics().Queued)
		time.Sleep(5 * time.Second) // first's have come, and nothing has come since
		settled := first.Settle(3)
		require.Equal(t, 3, settled.Permits())
		text, _ := mark.From(settled)
		require.Equal(t, "mine", text)
		d, _ := core.Delay.From(settled)
		require.Equal(t, 5*time.Second, d, "it stays what it was")
		require.Zero(t, first.Settle(0).Permits()-5, "it is spent")
		require.Equal(t, 0, l.Statistics().Queued, "the one behind it is served immediately")
		available(t, l, 1)

		now := reserves(t, everySecond(t, 5), 3, 0).Settle(1)
		require.Equal(t, 1, now.Permits())
		d, ok := core.Delay.From(now)
		require.True(t, ok)
		require.Zero(t, d)
	})
}

// Windows that nobody looks at may be skipped, with the permits that are promised in them.
func TestReserveUnderACalendarDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := fixed(t, core.FixedWindowOptions{PermitLimit: 1, Calendar: core.Daily(nil), QueueLimit: 5})
		reserves(t, day, 0, 0)
		reserves(t, day, 1, 0)
		rejection(t, day.Reserve(1).Err(), core.ReasonExhausted, 24*time.Hour)
		counts(t, day, 1, 0, 0, 2, 1)
		rate := everySecond(t, 5)
		both := chain(t, rate, day)
		rejection(t, both.Reserve(1).Err(), core.ReasonExhausted, 24*time.Hour)
		available(t, rate, 5)
		for range 4 {
			time.Sleep(24 * time.Hour)
			takes(t, day, 1)
		}
	})
}

// Nobody says when all parts come if one does not say it.
func TestDelayOfAChainWithAnUnknownPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auto := everySecond(t, 5)
		manual := fixed(t, core.FixedWindowOptions{PermitLimit: 1, Window: time.Second, QueueLimit: 5, ManualReplenishment: true})
		takes(t, manual, 1)
		name := core.NewMetadataKey[string]("NAME")
		for _, l := range []core.Reserver{chain(t, auto, manual), chain(t, manual, auto), chain(t, chain(t, auto), manual)} {
			lease := l.Reserve(1)
			require.NoError(t, lease.Err())
			for key := range lease.With(name.With("x")).Metadata() {
				require.NotEqual(t, core.Delay.Name(), key)
			}
			lease.Refund()
		}
	})
}

// All reservations that have come due are served by the next call, with others in between.
func TestManyReservationsComeDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 5000
		for name, l := range map[string]everything{
			"bucket": bucket(t, core.Every(time.Millisecond, 1)),
			"window": fixed(t, core.FixedWindowOptions{PermitLimit: many, Window: many * time.Millisecond, QueueLimit: many}),
		} {
			takes(t, l, l.Available())
			for range many {
				l.(core.Reserver).Reserve(1)
			}
			time.Sleep(many * time.Millisecond)
			var callers sync.WaitGroup
			for range 4 {
				callers.Go(func() {
					assert.False(t, l.TryAcquire(1).Acquired(), name)
					assert.Zero(t, l.Statistics().Queued, name)
				})
			}
			callers.Wait()
			require.Zero(t, l.Available(), name)
		}
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
		_, ok = core.Delay.From(k.Settle(1))
		require.False(t, ok, "it is still unknown")
	})
}

// A reservation of nothing of a concurrency limiter is a lease as every other.
func TestShadowReservesNothing(t *testing.T) {
	slots := concurrency(t, 10, 0)
	none := core.Shadow(slots).(core.Reserver).Reserve(0)
	a, b := none.Settle(3), none.Settle(3)
	available(t, slots, 4)
	a.Release()
	b.Release()
	takes(t, slots, 10).Release()
}

func TestReserveIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, order := range []core.QueueOrder{core.NewestFirst, core.FairShare} {
			o := core.Every(time.Second, 2)
			o.QueueLimit, o.QueueOrder = 2, order
			l := bucket(t, o)
			takes(t, l, 2)
			lease := reserves(t, l, 2, 2*time.Second)
			ctx := core.WithFlow(t.Context(), core.Flow{Key: "other", Priority: 1})
			a := make(chan error)
			go func() { _, err := l.Acquire(ctx, 2); a <- err }()
			synctest.Wait()
			lease.Refund()
			require.Equal(t, lease, lease.Settle(1))
			counts(t, l, 2, 0, 2, 1, 1)
			require.NoError(t, <-a)
		}
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

// Behind many waiters a probe is told to come back no later than a permit is left over.
func TestRetryAfterOfAProbeBehindMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Second, QueueLimit: 1e6})
		takes(t, l, 10)
		for range 1000 {
			l.Reserve(4)
		}
		rejected(t, l, 0, time.Second)
		time.Sleep(time.Second)
		takes(t, l, 0)
	})
}

// However many waiters a window has room for, they are served as of its boundary, and their leases are of that instant.
func TestManyAreServedAtTheBoundary(t *testing.T) {
	const n = 1500
	eachOfFour(t, n, n, func(t *testing.T, l everything) {
		r, ok := l.(core.Reserver)
		if !ok {
			return
		}
		takes(t, l, n)
		leases := make([]core.Lease, n)
		for i := range leases {
			if i%2 == 0 {
				leases[i] = r.Reserve(1)
				continue
			}
			go func() { leases[i], _ = l.Acquire(t.Context(), 1) }()
			synctest.Wait()
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		counts(t, l, n, 0, 0, n+1, 0)
		reset, _ := core.ResetAfter.From(leases[n-1])
		require.Equal(t, time.Second, reset)
		for _, lease := range leases {
			lease.Refund()
		}
		available(t, l, n)
	})
}
