package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

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
			core.Lease{}.Refund()
			core.Grant(1, nil).Refund()
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

// Tokens that are due, but not yet applied under manual terms, survive an Update. A Reset forgets them.
func TestOverdueTokens(t *testing.T) {
	for name, reset := range map[string]bool{"update": false, "reset": true} {
		testkit.Bubble(t, name, func(t *testing.T) {
			o := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
			l := bucket(t, o)
			takes(t, l, 5)
			time.Sleep(2 * time.Second)
			o.TokensPerPeriod = 2
			require.NoError(t, l.Update(o))
			if reset {
				l.Reset()
				available(t, l, 5)
				require.False(t, l.TryReplenish())
				takes(t, l, 5)
			} else {
				available(t, l, 0)
				require.True(t, l.TryReplenish())
				available(t, l, 2)
				takes(t, l, 2)
			}
			time.Sleep(time.Second)
			require.True(t, l.TryReplenish())
			available(t, l, 2)
		})
	}
}

func TestResetAfterCloseAndOfNone(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		takes(t, l, 5)
		require.NoError(t, l.Close())
		if r, ok := l.(core.Resetter); ok {
			r.Reset()
			available(t, l, 5)
		}
		refused(t, l, 1, core.ErrClosed)
	})
	for _, l := range []core.Resetter{new(core.TokenBucket), new(core.FixedWindow), new(core.SlidingWindow), new(core.ChainedLimiter)} {
		l.Reset()
	}
}

// Permits that are held of a concurrency limiter stay held, so it is no Resetter; a chain resets those
// that are.
func TestResetOfAConcurrencyLimiter(t *testing.T) {
	slots := concurrency(t, 5, 0)
	_, ok := core.Limiter(slots).(core.Resetter)
	require.False(t, ok)
	_, ok = core.Unlimited().(core.Resetter)
	require.False(t, ok)
	for _, view := range []core.Limiter{core.WithReason(slots, "full"), core.Shadow(slots)} {
		lease := takes(t, view, 5)
		view.(core.Resetter).Reset()
		available(t, slots, 0)
		lease.Release()
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
				lease.Refund()
				available(t, l, before)
			}
			time.Sleep(time.Minute)
			available(t, l, l.Statistics().Limit)
		}
	})
}
