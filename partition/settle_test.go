package partition_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// meter is a user's Settler: it grants all and counts the permits that are out. It knows its
// leases by a mark.
type meter struct {
	name string
	out  int
}

var markOf = core.NewMetadataKey[string]("MARK")

func (m *meter) TryAcquire(permits int) core.Lease {
	m.out += permits
	return m.lease(permits)
}

func (m *meter) lease(permits int) core.Lease {
	return core.Grant(permits, func() { m.out -= permits }, markOf.With(m.name))
}

func (m *meter) Acquire(_ context.Context, permits int) (core.Lease, error) {
	return m.TryAcquire(permits), nil
}

func (m *meter) Available() int { return 100 - m.out }

func (m *meter) Settle(l core.Lease, permits int) core.Lease {
	if mark, _ := markOf.From(l); mark != m.name {
		return l
	}
	l.Release()
	return m.TryAcquire(max(permits, 0))
}

func (m *meter) Refund(l core.Lease) { m.Settle(l, 0) }

// Settle does nothing for a partition that is gone, and creates none.
func TestSettleAfterTheDrop(t *testing.T) {
	m := &meter{name: "m"}
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return m, nil }})
	l := takes(t, k, "a", 5)
	require.Equal(t, l, k.Settle("b", l, 9))
	require.NoError(t, k.Close())
	require.Equal(t, l, k.Settle("a", l, 9))
	require.Equal(t, 5, m.out)
	require.Zero(t, k.Len())
	require.Equal(t, uint64(1), k.Counts().Created)
	k.Settle("a", l, 0)
	require.Zero(t, m.out, "released")
}

// settles is a Settler that has no Refund.
type settles struct {
	partition.Limiter[string]
	l *core.TokenBucket
}

func (s settles) Settle(_ string, l core.Lease, permits int) core.Lease {
	return s.l.Settle(l, permits)
}

// If a chain is rejected, it returns the permits of a Settler by Settle.
func TestChainUndoesBySettle(t *testing.T) {
	rate, _ := core.NewTokenBucket(core.Every(time.Hour, 5))
	chain := must(partition.Chain(settles{partition.Shared[string](rate), rate}, partition.Shared[string](semaphore("", 2))))
	require.False(t, chain.TryAcquire("a", 3).Acquired())
	require.Equal(t, 5, rate.Available())
	chain.(partition.Refunder[string]).Refund("a", chain.TryAcquire("a", 2))
	require.Equal(t, 5, rate.Available())
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
			k.Settle("a", l, 7)
			require.Equal(t, left, partition.For[string](k, "a").Available())
		})
	}
}
