package core_test

import (
	"context"
	"testing"
	"testing/synctest"

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

		// Nothing available: more than the limit is still answered at once.
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

		// One is available, and somebody waits for more: the probe asks for the one.
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

func TestAProbeWaitsBehindTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 3, 9)
		one, two := takes(t, l, 1), takes(t, l, 2)
		probe := queues(t, l, 0)
		next := queues(t, l, 1)
		one.Release()
		next.granted(t)
		probe.waits(t)
		two.Release()
		probe.granted(t)
		available(t, l, 2)
	})
}

func TestAProbeWaitsEvenWithoutAQueue(t *testing.T) {
	eachOfFour(t, 1, 0, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		probe := queues(t, l, 0)
		ended := queues(t, l, 0)
		ended.cancelled(t)
		l.Refund(held)
		probe.granted(t)
		counts(t, l, 1, 1, 0, 2, 0)
	})
}

// The zero value of a limiter refuses, and answers all else.
func TestZeroValuesRefuse(t *testing.T) {
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
