package telemetry_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// unsettled is a third-party limiter whose leases cannot be settled.
type unsettled struct {
	core.Limiter
	core.Reporter
	core.Idler
	io.Closer
}

func (u unsettled) TryAcquire(n int) core.Lease { return u.own(u.Limiter.TryAcquire(n)) }

func (u unsettled) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := u.Limiter.Acquire(ctx, n)
	return u.own(lease), err
}

func (unsettled) own(lease core.Lease) core.Lease {
	if !lease.Acquired() {
		return lease
	}
	return core.Grant(lease.Permits(), lease.Release)
}

// A lease ends at its Refund, once, also one of zero permits and one of a limiter that cannot settle.
func TestRefund(t *testing.T) {
	l := concurrency(t, 5, 0)
	for _, inner := range []core.Limiter{l, unsettled{l, l, l, l}} {
		for _, n := range []int{0, 2} {
			s := newSDK()
			i := instrument(t, s.Options, inner)
			lease := i.TryAcquire(n)
			lease.Refund()
			require.Equal(t, 5, l.Available())
			rest := l.TryAcquire(5)
			lease.Refund()
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
				lease := i.TryAcquire(2)
				time.Sleep(time.Second)
				more := lease.Settle(7)
				require.Equal(t, lease, lease.Settle(1), "spent")
				require.Equal(t, metadata(lease), metadata(more))
				less := more.Settle(6)
				require.Equal(t, less, less.Settle(6), "unchanged")
				lease.Release()
				more.Refund()
				require.Equal(t, 4, l.Available())
				require.Empty(t, times(t, s), "the lease continues")
				points, _ := s.collect(t)
				require.Equal(t, point{value: 5}, points[settledUp])
				require.Equal(t, point{value: 1}, points[settledDown])

				less.Settle(-1).Release()
				less.Release()
				points, _ = s.collect(t)
				require.Equal(t, point{value: 7}, points[settledDown])
				require.Equal(t, map[string]point{leaseGranted: {1, 1}}, times(t, s))
			})
		})
	}
}

// panicking is a limiter whose leases panic when they are settled.
type panicking struct{ *core.ConcurrencyLimiter }

func (p panicking) TryAcquire(n int) core.Lease {
	return core.GrantFrom(panickingGranter{p.ConcurrencyLimiter.TryAcquire(n)}, n)
}

func (p panicking) TryQuietly(n int) (core.Lease, bool) { return p.TryAcquire(n), true }

type panickingGranter struct{ lease core.Lease }

func (g panickingGranter) Release(int)         { g.lease.Release() }
func (g panickingGranter) Settle(int, int) int { panic("settle") }

func TestASettleThatPanics(t *testing.T) {
	s := newSDK()
	inner := concurrency(t, 5, 0)
	i := instrument(t, s.Options, panicking{inner})
	lease := i.TryAcquire(2)
	require.PanicsWithValue(t, "settle", func() { lease.Settle(1) })
	lease.Release()
	require.Equal(t, 5, inner.Available())
	require.Equal(t, uint64(1), times(t, s)[leaseGranted].count)
}

// counted embeds a limiter of core's and counts the refunds of its leases.
type counted struct {
	*core.TokenBucket

	refunded int
}

func (c *counted) TryAcquire(n int) core.Lease {
	return core.GrantFrom(&countedGranter{c, c.TokenBucket.TryAcquire(n)}, n)
}

type countedGranter struct {
	c     *counted
	lease core.Lease
}

func (g *countedGranter) Settle(_, now int) int {
	if now == 0 {
		g.c.refunded++
	}
	g.lease = g.lease.Settle(now)
	return now
}

func TestRefundOfALimiterThatEmbedsOne(t *testing.T) {
	l := &counted{TokenBucket: bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})}
	i := instrument(t, newSDK().Options, l)
	i.TryAcquire(2).Refund()
	require.Equal(t, 1, l.refunded)
	i.TryAcquire(2).Settle(0)
	require.Equal(t, 2, l.refunded)
	require.Equal(t, 5, l.Available())
}
