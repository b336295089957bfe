package core_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestRefundGivesBackAndServes(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		lease, other := takes(t, l, 3), takes(t, l, 2)
		a := queues(t, l, 2)
		l.Refund(lease)
		a.granted(t)
		available(t, l, 1)
		if holds(l) {
			l.Refund(lease)
			l.Refund(lease.With(core.ReasonPhrase.With("a copy")))
		}
		lease.Release()
		available(t, l, 1)
		l.Refund(other)
		available(t, l, 3)
		counts(t, l, 5, 3, 0, 3, 0) // granted is what was granted
	})
}

func TestRefundOfWhatIsNotHeld(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		takes(t, l, 4)
		stranger := four(t, 5, 5)
		for _, other := range stranger {
			l.Refund(takes(t, other, 3))
		}
		l.Refund(core.Lease{})
		l.Refund(core.Reject())
		l.Refund(core.Grant(3, nil))
		l.Refund(l.TryAcquire(0))
		l.Refund(l.TryAcquire(5))
		l.Refund(l.TryAcquire(-1))
		available(t, l, 1)
	})
}

func TestReleaseOfARateLimitersLeaseGivesNothingBack(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		if _, ok := l.(core.Replenisher); !ok {
			return
		}
		takes(t, l, 5).Release()
		available(t, l, 0)
	})
}

func TestRefundNeverFillsABucketAboveItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second})
		lease := takes(t, l, 5)
		time.Sleep(2 * time.Second)
		available(t, l, 4)
		l.Refund(lease)
		available(t, l, 5)
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.Zero(t, d)
		time.Sleep(500 * time.Millisecond)
		takes(t, l, 1)
		time.Sleep(time.Second - 1)
		available(t, l, 4)
		time.Sleep(1)
		available(t, l, 5)
	})
}

func TestAWindowsPermitsAreRefundedWhileTheyCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		first := takes(t, l, 3)
		time.Sleep(time.Second)
		second := takes(t, l, 4)
		time.Sleep(2 * time.Second)
		takes(t, l, 2)
		available(t, l, 4) // the first are back
		l.Refund(first)
		available(t, l, 4)
		l.Refund(second)
		available(t, l, 8)
		time.Sleep(time.Second) // the second's segment leaves: nothing more comes back
		available(t, l, 8)
		time.Sleep(2 * time.Second)
		available(t, l, 10)
	})
}

func TestAManualWindowsPermitsCountUntilTheyAreReplenished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Second, ManualReplenishment: true})
		a, b := takes(t, l, 1), takes(t, l, 2)
		time.Sleep(time.Minute)
		l.Refund(a)
		available(t, l, 1)
		require.True(t, l.TryReplenish())
		available(t, l, 3)
		takes(t, l, 3)
		l.Refund(b)
		available(t, l, 0)
	})
}

// A rate limiter remembers nothing of a lease: each refund gives back, up to a full limiter.
func TestEachRefundOfARateLimitersLeaseCounts(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		if holds(l) {
			return
		}
		lease := takes(t, l, 2)
		takes(t, l, 3)
		l.Refund(lease)
		available(t, l, 2)
		l.Refund(lease)
		available(t, l, 4)
		l.Refund(lease)
		available(t, l, 5)
		require.Equal(t, 1, l.Settle(lease, 1).Permits())
		available(t, l, 5)
	})
}

func TestManyRefundsAtOnce(t *testing.T) {
	for range 100 {
		l := concurrency(t, 100, 0)
		lease := takes(t, l, 10)
		takes(t, l, 50)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { l.Refund(lease) })
		}
		all.Wait()
		available(t, l, 50)
	}
}

// Each of very many leases is refunded, in any order: after any number of grants at one instant a
// refund gives back exactly what was taken.
func TestRefundsOfManyLeases(t *testing.T) {
	const n = 300_000
	l := bucket(t, core.TokenBucketOptions{TokenLimit: n, TokensPerPeriod: 1, ReplenishmentPeriod: 24 * time.Hour})
	leases := make([]core.Lease, n)
	for i := range leases {
		leases[i] = takes(t, l, 1)
	}
	for i := range leases {
		l.Refund(leases[int(int64(i)*7919%n)])
	}
	available(t, l, n)
}
