package telemetry_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// unsettled is a third-party limiter that refunds and does not settle.
type unsettled struct {
	core.Limiter
	core.Reporter
	core.Idler
	core.Refunder
	io.Closer
}

// A lease ends at its Refund, once, also one of zero permits and one of a limiter that cannot settle.
func TestRefund(t *testing.T) {
	l := concurrency(t, 5, 0)
	for _, inner := range []core.Limiter{l, unsettled{l, l, l, l, l}} {
		for _, n := range []int{0, 2} {
			s := newSDK()
			i := instrument(t, s.Options, inner)
			lease := i.TryAcquire(n)
			i.(core.Refunder).Refund(lease)
			require.Equal(t, 5, l.Available())
			rest := l.TryAcquire(5)
			i.(core.Refunder).Refund(lease)
			lease.Release()
			require.Equal(t, 0, l.Available())
			rest.Release()
			require.Equal(t, uint64(1), times(t, s)[leaseGranted].count, "once")
			points, _ := s.collect(t)
			require.Equal(t, point{value: float64(n)}, points[settledDown])
			require.Equal(t, n > 0, slices.Contains(names(points), settledDown), "nothing is said of no permits")
		}
	}
}

// What a settlement does to the limiter is checked by TestConformance.
func TestSettledPermits(t *testing.T) {
	for name, l := range map[string]core.Limiter{
		"concurrency": concurrency(t, 10, 0),
		"bucket":      bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}),
		"chain":       chain(t, foreign{concurrency(t, 20, 0)}, concurrency(t, 10, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSDK()
				i := instrument(t, s.Options, l)
				settler := i.(core.Settler)
				lease := i.TryAcquire(2)
				time.Sleep(time.Second)
				more := settler.Settle(lease, 7)
				require.Equal(t, lease, settler.Settle(lease, 1), "spent")
				require.Equal(t, metadata(lease), metadata(more))
				less := settler.Settle(more, 6)
				require.Equal(t, less, settler.Settle(less, 6), "unchanged")
				lease.Release()
				i.(core.Refunder).Refund(more)
				require.Equal(t, 4, l.Available())
				require.Empty(t, times(t, s), "the lease continues")
				points, _ := s.collect(t)
				require.Equal(t, point{value: 5}, points[settledUp])
				require.Equal(t, point{value: 1}, points[settledDown])

				settler.Settle(less, -1).Release()
				less.Release()
				points, _ = s.collect(t)
				require.Equal(t, point{value: 7}, points[settledDown])
				require.Equal(t, map[string]point{leaseGranted: {1, 1}}, times(t, s))
			})
		})
	}
}

// panicking is a limiter whose Settle panics.
type panicking struct{ *core.ConcurrencyLimiter }

func (panicking) Settle(core.Lease, int) core.Lease { panic("settle") }

func TestASettleThatPanics(t *testing.T) {
	s := newSDK()
	inner := concurrency(t, 5, 0)
	i := instrument(t, s.Options, panicking{inner})
	lease := i.TryAcquire(2)
	require.PanicsWithValue(t, "settle", func() { i.(core.Settler).Settle(lease, 1) })
	lease.Release()
	require.Equal(t, 5, inner.Available())
	require.Equal(t, uint64(1), times(t, s)[leaseGranted].count)
}

// counted embeds a limiter of core's and refunds in its own way.
type counted struct {
	*core.TokenBucket

	refunded int
}

func (c *counted) Refund(l core.Lease) {
	c.refunded++
	c.TokenBucket.Refund(l)
}

func TestRefundOfALimiterThatEmbedsOne(t *testing.T) {
	l := &counted{TokenBucket: bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})}
	i := instrument(t, newSDK().Options, l)
	i.(core.Refunder).Refund(i.TryAcquire(2))
	require.Equal(t, 1, l.refunded)
	i.(core.Settler).Settle(i.TryAcquire(2), 0)
	require.Equal(t, 2, l.refunded)
	require.Equal(t, 5, l.Available())
}
