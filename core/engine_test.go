package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestChecksComeInOrder(t *testing.T) {
	eachOfFour(t, 3, 3, func(t *testing.T, l everything) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		acquire := func(ctx context.Context, n int) error {
			lease, err := l.Acquire(ctx, n)
			if err != lease.Err() { //nolint:errorlint // unchanged is the rule
				require.Fail(t, "two errors")
			}
			require.False(t, lease.Acquired())
			require.Zero(t, lease.Permits())
			return err
		}

		// Open: negative comes before a done context, which comes before all else.
		refused(t, l, -1, core.ErrNegativePermits)
		require.Equal(t, core.ErrNegativePermits, acquire(done, -1))
		require.Equal(t, context.Canceled, acquire(done, 0), "permits are free")
		require.Equal(t, context.Canceled, acquire(done, 1), "permits are free")
		require.Equal(t, context.Canceled, acquire(done, 4))
		refused(t, l, 4, core.ErrPermitsExceedLimit)
		failed(t, core.ErrPermitsExceedLimit, acquire(t.Context(), 4), 4)
		counts(t, l, 3, 3, 0, 0, 0)

		// Nothing available: more than the limit still fails immediately.
		takes(t, l, 3)
		refused(t, l, 4, core.ErrPermitsExceedLimit)
		failed(t, core.ErrPermitsExceedLimit, acquire(t.Context(), 4), 4)
		counts(t, l, 3, 0, 0, 1, 0)

		require.NoError(t, l.Close())
		refused(t, l, -1, core.ErrNegativePermits)
		require.Equal(t, core.ErrNegativePermits, acquire(done, -1))
		require.Equal(t, context.Canceled, acquire(done, 4))
		refused(t, l, 4, core.ErrClosed)
		refused(t, l, 1, core.ErrClosed)
		refused(t, l, 0, core.ErrClosed)
		require.Equal(t, core.ErrClosed, acquire(t.Context(), 0))
		require.Equal(t, core.ErrClosed, acquire(t.Context(), 4))
		counts(t, l, 3, 0, 0, 1, 0)
	})
}

func TestZeroPermitsIsAProbe(t *testing.T) {
	eachOfFour(t, 3, 3, func(t *testing.T, l everything) {
		require.True(t, l.TryAcquire(0).Acquired())
		counts(t, l, 3, 3, 0, 1, 0)
		held := takes(t, l, 2)

		// One is available, and a request waits for more: the probe asks for the one.
		big := queues(t, l, 3)
		lease := l.TryAcquire(0)
		require.True(t, lease.Acquired())
		require.Zero(t, lease.Permits())
		lease.Release()
		l.Refund(lease)
		acquires(t, l, 0).granted(t)
		available(t, l, 1)
		counts(t, l, 3, 1, 3, 4, 0)

		big.cancelled(t)
		takes(t, l, 1)
		require.False(t, l.TryAcquire(0).Acquired())
		counts(t, l, 3, 0, 0, 5, 1)

		// The queue is full, and has no say in it: they all wait, and are all served.
		other := queues(t, l, 3)
		probes := []*acquire{queues(t, l, 0), queues(t, l, 0), queues(t, l, 0)}
		counts(t, l, 3, 0, 3, 5, 1)
		other.cancelled(t)
		l.Refund(held)
		for _, p := range probes {
			require.Zero(t, p.granted(t).Permits())
		}
		available(t, l, 2)
		counts(t, l, 3, 2, 0, 8, 1)
	})
}

// The zero value of a limiter refuses, and answers all else.
func TestZeroValuesAreClosed(t *testing.T) {
	for name, l := range map[string]everything{
		"concurrency": new(core.ConcurrencyLimiter), "bucket": new(core.TokenBucket),
		"fixed": new(core.FixedWindow), "sliding": new(core.SlidingWindow), "chain": new(core.ChainedLimiter),
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1} {
				refused(t, l, n, core.ErrClosed)
				lease, err := l.Acquire(t.Context(), n)
				require.Equal(t, core.ErrClosed, err)
				require.Equal(t, err, lease.Err())
			}
			refused(t, l, -1, core.ErrNegativePermits)
			require.Zero(t, l.Available())
			require.Zero(t, l.Statistics())
			_, idle := l.IdleFor()
			require.False(t, idle)
			l.Refund(core.Lease{})
			l.Refund(core.Grant(1, nil))
			require.NoError(t, l.Close())
			if r, ok := l.(core.Replenisher); ok {
				require.False(t, r.TryReplenish())
				require.False(t, r.AutoReplenishing())
				require.Zero(t, r.ReplenishmentPeriod())
			}
			require.NotEmpty(t, l.(interface{ String() string }).String())
		})
	}
	require.Error(t, new(core.ConcurrencyLimiter).Update(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
}

// rates returns the rate limiters of four, with five permits a second.
func rates(tb testing.TB) map[string]everything {
	tb.Helper()
	l := four(tb, 5, 5)
	delete(l, "concurrency")
	l["slow bucket"] = bucket(tb, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5})
	l["bucket"] = bucket(tb, core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5, ManualReplenishment: true,
	})
	require.NoError(tb, l["bucket"].(*core.TokenBucket).Update(core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5,
	}))
	return l
}

// From one bubble to the next the clock goes back. For the limiter it stands still.
func TestAClockThatGoesBackStandsStill(t *testing.T) {
	for _, name := range []string{"bucket", "slow bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			var l everything
			synctest.Test(t, func(t *testing.T) {
				l = rates(t)[name]
				time.Sleep(10*time.Second + 300*time.Millisecond)
				takes(t, l, 4)
				takes(t, l, 1)
			})
			left := time.Second
			if name == "fixed" || name == "sliding" {
				left = 700 * time.Millisecond
			}
			synctest.Test(t, func(t *testing.T) {
				available(t, l, 0)
				rejected(t, l, 1, left)
				time.Sleep(left - 1)
				rejected(t, l, 1, 1)
				a := queues(t, l, 2)
				time.Sleep(1)
				lease := a.granted(t)
				available(t, l, 3)
				l.Refund(lease)
				available(t, l, 5)
				idleFor(t, l, 0)
				time.Sleep(time.Minute)
				idleFor(t, l, time.Minute)
				takes(t, l, 1)
			})
			synctest.Test(t, func(t *testing.T) {
				available(t, l, 4)
				time.Sleep(time.Second)
				available(t, l, 5)
				takes(t, l, 1)
				time.Sleep(300 * time.Millisecond)
			})
			synctest.Test(t, func(t *testing.T) {
				// Back by less than a replenishment.
				available(t, l, 4)
				takes(t, l, 4)
				time.Sleep(time.Second)
				available(t, l, 5)
			})
		})
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		held := takes(t, l, 3)
		all := []*acquire{queues(t, l, 2), queues(t, l, 3), queues(t, l, 0), queues(t, l, 0)}
		for range 3 {
			require.NoError(t, l.Close())
		}
		for _, a := range all {
			a.fails(t, core.ErrClosed)
		}
		counts(t, l, 3, 0, 0, 1, 0)

		// Leases still release, and statistics still answer.
		l.Refund(held)
		counts(t, l, 3, 3, 0, 1, 0)
		_, idle := l.IdleFor()
		require.True(t, idle)
		refused(t, l, 1, core.ErrClosed)
		acquires(t, l, 1).fails(t, core.ErrClosed)
	})
}

// resettable is a limiter that can be reset.
type resettable interface {
	everything
	core.Resetter
}

// eachRate runs a test on each rate limiter, of five permits a second, alone and in views.
func eachRate(t *testing.T, test func(t *testing.T, name string, l resettable)) {
	t.Helper()
	for _, name := range []string{"bucket", "slow bucket", "fixed", "sliding", "manual", "reasoned", "chain"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := rates(t)
				all["manual"] = fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 5, ManualReplenishment: true})
				all["reasoned"] = core.WithReason(all["fixed"], "full").(everything)
				all["chain"] = chain(t, all["bucket"], all["sliding"])
				l, ok := all[name].(resettable)
				require.True(t, ok)
				test(t, name, l)
			})
		})
	}
}

func TestReset(t *testing.T) {
	eachRate(t, func(t *testing.T, _ string, l resettable) {
		time.Sleep(300 * time.Millisecond)
		lease := takes(t, l, 5)
		require.False(t, l.TryAcquire(1).Acquired())
		l.Reset()
		available(t, l, 5)
		idleFor(t, l, 0)
		l.Refund(lease) // from before it: nothing comes back twice
		available(t, l, 5)
		counts(t, l, 5, 5, 0, 1, 1) // statistics stay
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)

		lease = l.Settle(takes(t, l, 2), 50)
		available(t, l, 0)
		a, b := queues(t, l, 2), queues(t, l, 3)
		l.Reset() // forgets the debt, and serves
		a.granted(t)
		b.granted(t)
		l.Refund(lease)
		lease.Release()
		counts(t, l, 5, 0, 0, 4, 1)
	})
}

// What is due but not yet applied under manual terms is gone with all else, and so is what was given back.
func TestResetUnderManualTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 5)
		time.Sleep(2 * time.Second)
		o.TokensPerPeriod = 2
		require.NoError(t, l.Update(o))
		l.Reset()
		available(t, l, 5)
		require.False(t, l.TryReplenish())
		takes(t, l, 5)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 2)
	})
}

func TestResetAfterCloseAndOfNone(t *testing.T) {
	eachRate(t, func(t *testing.T, _ string, l resettable) {
		takes(t, l, 5)
		require.NoError(t, l.Close())
		l.Reset()
		available(t, l, 5)
		refused(t, l, 1, core.ErrClosed)
	})
	for _, l := range []core.Resetter{new(core.TokenBucket), new(core.FixedWindow), new(core.SlidingWindow), new(core.ChainedLimiter)} {
		l.Reset()
	}
}

// What is held of a concurrency limiter stays held, so it is no Resetter; a chain resets those
// that are.
func TestResetOfAConcurrencyLimiter(t *testing.T) {
	slots := concurrency(t, 5, 0)
	_, ok := core.Limiter(slots).(core.Resetter)
	require.False(t, ok)
	for _, view := range []core.Limiter{core.WithReason(slots, "full"), core.Shadow(slots), core.Unlimited()} {
		_, ok = view.(core.Resetter)
		require.False(t, ok)
	}
	rate := bucket(t, core.Every(time.Hour, 5))
	c := chain(t, slots, chain(t, rate))
	lease := takes(t, c, 5)
	c.Reset()
	available(t, slots, 0)
	available(t, rate, 5)
	lease.Release()
	available(t, c, 5)
}

// Permits come for a waiter, and at that very instant, perhaps before the timer runs, the limiter
// is updated or reset. The waiter was served before that, and so its lease is of the settings of
// then: it has their limit, and gives nothing back to a limiter that was reset.
func TestServedBeforeAChange(t *testing.T) {
	eachOfFour(t, 5, 9, func(t *testing.T, l everything) {
		r, ok := l.(core.Resetter)
		if !ok {
			return // nothing comes with time
		}
		for i := range 200 {
			limit := l.Statistics().Limit
			takes(t, l, limit)
			retry, _ := core.RetryAfter.From(l.TryAcquire(2))
			a := queues(t, l, 2)
			time.Sleep(retry)
			if i%2 == 0 {
				require.NoError(t, update(l, 5+i%4, 9))
			} else {
				r.Reset()
			}
			lease := a.granted(t)
			of, _ := core.PermitLimit.From(lease)
			require.Equal(t, limit, of)
			if i%2 == 1 {
				takes(t, l, 3)
				before := l.Available()
				l.Refund(lease)
				available(t, l, before)
			}
			time.Sleep(time.Minute)
			available(t, l, l.Statistics().Limit)
		}
	})
}
