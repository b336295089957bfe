package partition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// A lease is settled by the limiter that granted it, wherever its key is decided by then.
func TestSettleWherever(t *testing.T) {
	l := bucket(10, time.Hour)
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return l, nil }})
	chain := must(partition.Chain(k, partition.Shared[string](core.Unlimited())))
	for name, try := range map[string]func(n int) core.Lease{
		"Keyed": func(n int) core.Lease { return k.TryAcquire("a", n) },
		"For":   partition.For[string](k, "a").TryAcquire,
		"Translate": func(n int) core.Lease {
			return partition.Translate(partition.Limiter[string](k), self).TryAcquire("a", n)
		},
		"Chain":   func(n int) core.Lease { return chain.TryAcquire("a", n) },
		"its For": partition.For(chain, "a").TryAcquire,
		"Shared":  func(n int) core.Lease { return partition.Shared[string](l).TryAcquire("", n) },
	} {
		try(3).Settle(4).Refund()
		require.Equal(t, 10, l.Available(), name)
	}
	lease := takes(t, k, "a", 5)
	require.NoError(t, k.Close())
	lease.Settle(2)
	require.Equal(t, 8, l.Available())
	require.Equal(t, uint64(1), k.Counts().Created)
}

// A rate limiter that is idle is dropped even while a request that it granted is still running. A cost that
// is settled after IdleTimeout is lost.
func TestSettleOfALongRequest(t *testing.T) {
	for idle, left := range map[time.Duration]int{time.Minute: 5, 2 * time.Minute: 0} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeyed(t, options{IdleTimeout: idle, New: func(string) (core.Limiter, error) {
				return core.NewTokenBucket(core.PerSecond(5, 5))
			}})
			l := takes(t, k, "a", 1)
			time.Sleep(90 * time.Second)
			k.Sweep()
			l.Settle(7)
			require.Equal(t, left, partition.For[string](k, "a").Available())
		})
	}
}
