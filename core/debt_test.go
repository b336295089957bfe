package core_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A bucket's tokens pay the debt first, one by one, and the answers tell when.
func TestABucketsDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 9})
		lease := takes(t, l, 2)
		time.Sleep(300 * time.Millisecond)
		settles(t, l, lease, 10) // 3 tokens are there, 5 are owed
		for paid := range 5 {
			available(t, l, 0)
			left := time.Duration(6-paid)*time.Second - 300*time.Millisecond
			owes(t, l, 1, left, left+4*time.Second)
			owes(t, l, 5, left+4*time.Second, left+4*time.Second)
			time.Sleep(time.Second)
		}
		available(t, l, 0)
		a := queues(t, l, 2)
		time.Sleep(2*time.Second - 300*time.Millisecond - 1)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		time.Sleep(5 * time.Second)
		available(t, l, 5)
	})
}

// owes finds that permits come after that time, and all in another if nothing more is taken.
func owes(tb testing.TB, l core.Limiter, permits int, retry, reset time.Duration) {
	tb.Helper()
	lease := rejected(tb, l, permits, retry)
	got, ok := core.ResetAfter.From(lease)
	require.True(tb, ok)
	require.Equal(tb, reset, got)
}

// A bucket that gets several tokens at a time pays with them all.
func TestALumpyBucketsDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, QueueLimit: 99})
		settles(t, l, takes(t, l, 10), 17) // 7 are owed
		owes(t, l, 1, 2*time.Second, 5*time.Second)
		owes(t, l, 2, 3*time.Second, 5*time.Second)
		a, b := queues(t, l, 2), queues(t, l, 8)
		time.Sleep(3 * time.Second)
		a.granted(t)
		time.Sleep(time.Second) // 16 have come: 7 paid, 2 taken, 7 there
		b.waits(t)
		time.Sleep(time.Second)
		b.granted(t)
		available(t, l, 2) // one token more came than the bucket has room for
	})
}

// A window's debt leaves with the segment in which it was settled.
func TestAWindowsDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 99})
		lease := takes(t, l, 2)
		time.Sleep(300 * time.Millisecond)
		lease = settles(t, l, lease, 12)
		owes(t, l, 1, 700*time.Millisecond, 700*time.Millisecond)
		time.Sleep(700 * time.Millisecond)
		available(t, l, 5)
		settles(t, l, lease, 14) // the two are counted now
		available(t, l, 3)
		time.Sleep(time.Second)
		available(t, l, 5)
	})
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 2, QueueLimit: 99})
		lease := takes(t, l, 2)
		time.Sleep(600 * time.Millisecond)
		settles(t, l, lease, 9) // 2 count in the first segment, 7 in the second
		owes(t, l, 1, 900*time.Millisecond, 900*time.Millisecond)
		a := queues(t, l, 1)
		time.Sleep(400 * time.Millisecond) // the 2 have left
		a.waits(t)
		available(t, l, 0)
		retry, _ := core.RetryAfter.From(l.TryAcquire(1))
		require.Equal(t, 500*time.Millisecond, retry)
		time.Sleep(500 * time.Millisecond)
		a.granted(t)
		available(t, l, 4)
	})
}

func TestAConcurrencyLimitersDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 5, 5)
		a, b := takes(t, l, 2), takes(t, l, 3)
		a = settles(t, l, a, 9)
		b.Release()
		available(t, l, 0)
		rejected(t, l, 1, 0)
		w := queues(t, l, 5)
		b = settles(t, l, settles(t, l, a, 6), 1)
		w.waits(t)
		available(t, l, 4)
		b.Release()
		w.granted(t)
		spent(t, l, b)
		available(t, l, 0)
	})
}

func TestUpdateKeepsDebts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{1, 3, 8, 11} {
			c := concurrency(t, 5, 5)
			lease := settles(t, c, takes(t, c, 2), 10)
			require.NoError(t, c.Update(core.ConcurrencyLimiterOptions{PermitLimit: limit}))
			available(t, c, max(limit-10, 0))
			lease = settles(t, c, lease, 9)
			available(t, c, max(limit-9, 0))
			lease.Release()
			available(t, c, limit)

			o := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}
			b := bucket(t, o)
			lease = settles(t, b, takes(t, b, 2), 10) // 5 are owed
			o.TokenLimit = limit
			require.NoError(t, b.Update(o))
			owes(t, b, 1, 6*time.Second, time.Duration(5+limit)*time.Second)
			settles(t, b, lease, 3) // from before the Update: nothing comes back
			owes(t, b, 1, 6*time.Second, time.Duration(5+limit)*time.Second)

			s := core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 4}
			w := sliding(t, s)
			lease = settles(t, w, takes(t, w, 2), 10)
			s.PermitLimit = limit
			require.NoError(t, w.Update(s))
			available(t, w, max(limit-10, 0))
			settles(t, w, lease, 12)
			available(t, w, max(limit-12, 0))
			time.Sleep(time.Second)
			available(t, w, limit)
		}
	})
}

// Debts end at math.MaxInt; and when all is given back, all is there.
func TestSettleToTheUtmost(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		a, b := takes(t, l, 2), takes(t, l, 1)
		a = settles(t, l, a, math.MaxInt)
		available(t, l, 0)
		b = settles(t, l, b, math.MaxInt)
		available(t, l, 0)
		if !shadowed(name) {
			rejection := l.TryAcquire(5)
			require.ErrorIs(t, rejection.Err(), core.ErrRejected)
			if retry, ok := core.RetryAfter.From(rejection); ok {
				require.Positive(t, retry)
			}
		}
		a = settles(t, l, a, 1)
		b = settles(t, l, b, 1)
		if strings.HasSuffix(name, "concurrency") {
			available(t, l, 3)
		}
		settles(t, l, a, 0)
		settles(t, l, b, 0)
		if !strings.HasSuffix(name, "concurrency") {
			require.LessOrEqual(t, l.Available(), 5)
			return
		}
		available(t, l, 5)
	})
	l := concurrency(t, 5, 5)
	a, b, c := takes(t, l, 1), takes(t, l, 1), takes(t, l, 1)
	a, b, c = settles(t, l, a, math.MaxInt), settles(t, l, b, math.MaxInt), settles(t, l, c, math.MaxInt)
	for _, lease := range []core.Lease{a, b, c} {
		available(t, l, 0)
		lease.Release()
	}
	available(t, l, 5)
	w := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Minute, ManualReplenishment: true})
	one, other := takes(t, w, 1), takes(t, w, 1)
	settles(t, w, one, math.MaxInt)
	settles(t, w, other, math.MaxInt)
	available(t, w, 0)
}

// What a lease that was settled up gives back at once is exact, beside other grants.
func TestSettleUpAndRefundAtOnce(t *testing.T) {
	for _, manual := range []bool{false, true} {
		for which := range 2 {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, core.TokenBucketOptions{
					TokenLimit: 8, TokensPerPeriod: 8, ReplenishmentPeriod: time.Second, ManualReplenishment: manual,
				})
				leases := []core.Lease{takes(t, l, 3), takes(t, l, 3)}
				for _, n := range []int{4, 9, 12} {
					leases[which] = settles(t, l, leases[which], n)
				}
				settles(t, l, leases[which], 0)
				available(t, l, 5)
			})
		}
	}
}

// Tokens that are due, and wait for TryReplenish, are for what was taken first.
func TestSettleUpUnderManualTermsMintsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second, ManualReplenishment: true})
		lease := takes(t, l, 3)
		time.Sleep(1500 * time.Millisecond) // two of the three are due
		takes(t, l, 1)
		lease = settles(t, l, lease, 6)
		require.True(t, l.TryReplenish())
		l.Refund(lease)
		require.LessOrEqual(t, l.Available(), 4) // as if the one alone had been taken
	})
}

// A zero-permit request is rejected, or waits, until the debt is paid and a permit is available.
func TestZeroPermitsBesideADebt(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		if shadowed(name) {
			return
		}
		lease := settles(t, l, takes(t, l, 1), 12)
		want, wantOK := core.RetryAfter.From(l.TryAcquire(1))
		probe := l.TryAcquire(0)
		require.False(t, probe.Acquired())
		retry, ok := core.RetryAfter.From(probe)
		require.Equal(t, wantOK, ok)
		require.Equal(t, want, retry)
		a := queues(t, l, 0)
		lease = settles(t, l, lease, 5)
		a.waits(t)
		l.Settle(lease, 4)
		a.granted(t)
		available(t, l, 1)
	})
}
