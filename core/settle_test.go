package core_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// settlers returns limiters of each kind, bare, in chains and behind views, with that limit
// and room to wait. What is taken of the rates comes back a second later at the latest.
func settlers(tb testing.TB, limit, queue int) map[string]everything {
	tb.Helper()
	all := four(tb, limit, queue)
	for name, l := range four(tb, limit, queue) {
		all["reasoned "+name] = core.WithReason(l, "full").(everything)
	}
	for name, l := range four(tb, limit, queue) {
		all["chain of "+name] = chain(tb, l)
	}
	for name, l := range four(tb, limit, queue) {
		all["shadowed "+name] = core.Shadow(l).(everything)
	}
	k := four(tb, limit, queue)
	all["chain of all"] = chain(tb, k["fixed"], chain(tb, k["concurrency"], k["sliding"]), k["bucket"])
	return all
}

// eachSettler runs a test on each of settlers, in a bubble of its own.
func eachSettler(t *testing.T, limit, queue int, test func(t *testing.T, name string, l everything)) {
	t.Helper()
	for name := range settlers(t, limit, queue) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, name, settlers(t, limit, queue)[name]) })
		})
	}
}

// shadowed reports whether the limiter of that name never waits.
func shadowed(name string) bool { return strings.HasPrefix(name, "shadowed") }

// settles is Settle, and finds that the one that stands in its place tells the same, and
// that it is spent.
func settles(tb testing.TB, l everything, lease core.Lease, permits int) core.Lease {
	tb.Helper()
	before := l.Statistics()
	settled := l.Settle(lease, permits)
	require.True(tb, settled.Acquired())
	require.NoError(tb, settled.Err())
	require.Equal(tb, max(permits, 0), settled.Permits())
	require.Equal(tb, maps.Collect(lease.Metadata()), maps.Collect(settled.Metadata()))
	if before.Queued == 0 {
		after := l.Statistics()
		require.Equal(tb, [...]uint64{before.Granted, before.Rejected}, [...]uint64{after.Granted, after.Rejected}, "no statistic counts it")
	}
	if n := lease.Permits(); n > 0 && n != permits { // a lease of no permits is not counted
		spent(tb, l, lease)
	}
	return settled
}

// spent finds that nothing can be done with a lease or a copy.
func spent(tb testing.TB, l everything, lease core.Lease) {
	tb.Helper()
	available, queued := l.Available(), l.Statistics().Queued
	for _, k := range []core.Lease{lease, lease.With(core.ReasonPhrase.With("a copy"))} {
		k.Release()
		l.Refund(k)
		for _, n := range []int{-1, 0, 1, k.Permits() + 1, math.MaxInt} {
			again := l.Settle(k, n)
			require.Equal(tb, k.Permits(), again.Permits())
			require.Equal(tb, k, again)
		}
		core.ReleaseAll([]core.Lease{k, k})
	}
	require.Equal(tb, [...]int{available, queued}, [...]int{l.Available(), l.Statistics().Queued}, "spent")
}

func TestSettleDownServesWaiters(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		lease := takes(t, l, 5)
		if shadowed(name) {
			settles(t, l, lease, 2)
			available(t, l, 3)
			return
		}
		a, b := queues(t, l, 2), queues(t, l, 2)
		lease = settles(t, l, lease, 2)
		a.granted(t)
		b.waits(t)
		lease = settles(t, l, lease, 1)
		b.granted(t)
		available(t, l, 0)
		lease = settles(t, l, lease, 0)
		available(t, l, 1)
		spentOrNothing(t, l, lease)
	})
}

// spentOrNothing finds that a lease of no permits holds nothing.
func spentOrNothing(tb testing.TB, l everything, lease core.Lease) {
	tb.Helper()
	require.True(tb, lease.Acquired())
	require.Zero(tb, lease.Permits())
	before := l.Statistics()
	lease.Release()
	l.Refund(lease)
	require.Equal(tb, lease, l.Settle(lease, 0))
	require.Equal(tb, before, l.Statistics())
}

func TestSettleUpNeverWaits(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		lease := takes(t, l, 1)
		lease = settles(t, l, lease, 3)
		available(t, l, 2)
		lease = settles(t, l, lease, 5)
		available(t, l, 0)
		if shadowed(name) {
			settles(t, l, lease, 12)
			available(t, l, 0)
			return
		}
		a := queues(t, l, 1)
		lease = settles(t, l, lease, 12)
		available(t, l, 0)
		a.waits(t)
		lease = settles(t, l, lease, 5)
		a.waits(t)
		lease = settles(t, l, lease, 4)
		a.granted(t)
		available(t, l, 0)
		settles(t, l, lease, 0)
		available(t, l, 4)
	})
}

// The same number, and a number below 0.
func TestSettleToTheSameAndBelowZero(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, _ string, l everything) {
		lease := takes(t, l, 3)
		same := settles(t, l, lease, 3)
		available(t, l, 2)
		none := settles(t, l, same, -7)
		available(t, l, 5)
		spentOrNothing(t, l, none)
		spent(t, l, lease)
	})
}

// What was settled to nothing may be settled up once more; a chain has let go of it.
func TestSettleToZeroAndThenUp(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		lease := settles(t, l, takes(t, l, 3), 0)
		if strings.HasPrefix(name, "chain") {
			require.Equal(t, lease, l.Settle(lease, 2))
			available(t, l, 5)
			return
		}
		lease = settles(t, l, lease, 2)
		available(t, l, 3)
		lease = l.Settle(lease, 4)
		available(t, l, 1)
		require.Zero(t, l.Settle(lease, 0).Permits())
		require.LessOrEqual(t, l.Available(), 5)
		if strings.HasSuffix(name, "concurrency") {
			available(t, l, 5)
		}
	})
}

func TestSettleALeaseOfZeroPermits(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, _ string, l everything) {
		lease := settles(t, l, takes(t, l, 0), 2)
		available(t, l, 3)
		lease = l.Settle(lease, 7)
		require.Equal(t, 7, lease.Permits())
		available(t, l, 0)
	})
}

func TestSettleALeaseWithMetadata(t *testing.T) {
	added := core.NewMetadataKey[string]("ADDED")
	eachSettler(t, 5, 5, func(t *testing.T, _ string, l everything) {
		bare := takes(t, l, 3)
		lease := bare.With(added.With("it"), core.Remaining.With(77))
		for _, n := range []int{4, 2, 7, 1} {
			lease = settles(t, l, lease, n)
			available(t, l, max(5-n, 0))
			v, ok := added.From(lease)
			require.True(t, ok)
			require.Equal(t, "it", v)
			left, _ := core.Remaining.From(lease)
			require.Equal(t, 77, left)
			lease = lease.With(core.NewMetadataKey[int]("N").With(n))
		}
		spent(t, l, bare)
		settles(t, l, lease, 0)
		available(t, l, 5)
	})
}

// What is not the limiter's, or no grant, comes back as it is.
func TestSettleOfWhatIsNotHeld(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		other := settlers(t, 5, 5)[name]
		theirs := takes(t, other, 3)
		takes(t, l, 4)
		leases := []core.Lease{
			{},
			core.Reject(), core.Refuse(errors.New("some")), core.Grant(3, nil), core.Grant(3, func() { t.Error("released") }), theirs,
			l.TryAcquire(-1), four(t, 5, 5)["bucket"].TryAcquire(2),
		}
		if !shadowed(name) {
			leases = append(leases, l.TryAcquire(2), l.TryAcquire(6))
		}
		before := l.Statistics()
		for _, lease := range leases {
			for _, n := range []int{-1, 0, 1, 9} {
				require.Equal(t, lease, l.Settle(lease, n))
				require.Equal(t, before, l.Statistics())
			}
		}
		available(t, other, 2)
	})
}

// Without a limit all costs nothing.
func TestSettleUnlimited(t *testing.T) {
	added := core.NewMetadataKey[string]("ADDED")
	l := core.Unlimited().(everything)
	for _, lease := range []core.Lease{takes(t, l, 3), takes(t, l, 3).With(added.With("it")), takes(t, l, math.MaxInt)} {
		for _, n := range []int{7, 0, math.MaxInt, 2, -1} {
			settled := l.Settle(lease, n)
			require.True(t, settled.Acquired())
			require.Equal(t, max(n, 0), settled.Permits())
			require.Equal(t, maps.Collect(lease.Metadata()), maps.Collect(settled.Metadata()))
			lease = settled
		}
	}
	for _, lease := range []core.Lease{{}, core.Reject(), l.TryAcquire(-1)} {
		require.Equal(t, lease, l.Settle(lease, 2))
	}
	theirs := takes(t, concurrency(t, 5, 0), 1)
	require.Equal(t, theirs, l.Settle(theirs, 2))
	ran := 0
	owned := core.Grant(1, func() { ran++ })
	require.Equal(t, owned, l.Settle(owned, 2))
	owned.Release()
	require.Equal(t, 1, ran)
	require.EqualValues(t, 3, l.Statistics().Granted)
}

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

func TestSettleAfterClose(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		a, b := takes(t, l, 2), takes(t, l, 1)
		require.NoError(t, l.Close())
		a = settles(t, l, a, 4)
		available(t, l, 0)
		a = settles(t, l, a, 1)
		available(t, l, 3)
		if name == "concurrency" {
			a.Release()
			available(t, l, 4)
		}
		settles(t, l, b, 0)
		if name == "concurrency" {
			available(t, l, 5)
		}
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

// What a lease tells is what it was told, however large the limit becomes.
func TestALeaseTellsTheSameAfterAnUpdate(t *testing.T) {
	for _, limits := range [][2]int{{5, math.MaxInt}, {math.MaxInt, 5}, {math.MaxInt32, math.MaxInt32 + 1}, {5, 7}} {
		l := concurrency(t, limits[0], 0)
		a, b := takes(t, l, 2), takes(t, l, 1)
		for i, lease := range []core.Lease{a, b} {
			require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: limits[1]}))
			for range 2 {
				left, ok := core.Remaining.From(lease)
				require.True(t, ok)
				require.Equal(t, limits[0]-2-i, left)
				if limits[0] <= math.MaxInt32 {
					limit, _ := core.PermitLimit.From(lease)
					require.Equal(t, limits[0], limit)
				}
				lease = settles(t, l, lease, 4)
			}
			lease.Release()
		}
		available(t, l, limits[1])
	}
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

// What a settled lease takes more is given back like a grant of the instant of the settlement,
// in the meantime and after it.
func TestSettleUpAndThenDownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		lease := settles(t, l, takes(t, l, 2), 8)
		time.Sleep(3 * time.Second)
		available(t, l, 5)
		settles(t, l, lease, 1) // 3 of the 8 have come back
		require.LessOrEqual(t, l.Available(), 10)
		require.GreaterOrEqual(t, l.Available(), 5)
		time.Sleep(20 * time.Second)

		lease = takes(t, l, 2)
		time.Sleep(5 * time.Second) // full again
		lease = settles(t, l, lease, 6)
		available(t, l, 6)
		settles(t, l, lease, 2)
		require.LessOrEqual(t, l.Available(), 10)
	})
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: time.Second, SegmentsPerWindow: 2})
		lease := takes(t, l, 2)
		time.Sleep(500 * time.Millisecond)
		lease = settles(t, l, lease, 8)
		available(t, l, 2)
		time.Sleep(500 * time.Millisecond) // the 2 have left
		available(t, l, 4)
		settles(t, l, lease, 0)
		require.GreaterOrEqual(t, l.Available(), 4)
		time.Sleep(500 * time.Millisecond)
		available(t, l, 10)
	})
}

func TestSettleDownAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool drops at random")
	}
	all := map[string]everything{}
	for _, manual := range []bool{false, true} {
		suffix := map[bool]string{true: ", manual"}[manual]
		all["bucket"+suffix] = bucket(t, core.TokenBucketOptions{
			TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, ManualReplenishment: manual,
		})
		all["fixed"+suffix] = fixed(t, core.FixedWindowOptions{PermitLimit: 1000, Window: time.Hour, ManualReplenishment: manual})
		all["sliding"+suffix] = sliding(t, core.SlidingWindowOptions{
			PermitLimit: 1000, Window: time.Hour, SegmentsPerWindow: 5, ManualReplenishment: manual,
		})
	}
	all["concurrency"] = concurrency(t, 1000, 0)
	all["chain"] = chain(t, concurrency(t, 1000, 0), bucket(t, core.PerSecond(1000, 1000)))
	for name, l := range all {
		require.Zero(t, testing.AllocsPerRun(300, func() {
			lease := l.TryAcquire(5)
			lease = l.Settle(lease, 3)
			l.Settle(lease, 1).Release()
		}), name)
		require.Zero(t, testing.AllocsPerRun(300, func() { l.Refund(l.TryAcquire(5)) }), name)
	}
}

// Release, refund and settle race on copies of a lease: one of them wins, and in the end
// everything is back.
func TestStressSettle(t *testing.T) {
	const limit = 50
	for _, name := range []string{"concurrency", "bucket", "fixed", "sliding", "chain", "metadata"} {
		t.Run(name, func(t *testing.T) {
			var l everything = concurrency(t, limit, 0)
			long := 24 * time.Hour
			switch name {
			case "bucket":
				l = bucket(t, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: long})
			case "fixed":
				l = fixed(t, core.FixedWindowOptions{PermitLimit: limit, Window: long})
			case "sliding":
				l = sliding(t, core.SlidingWindowOptions{PermitLimit: limit, Window: long, SegmentsPerWindow: 2})
			case "chain":
				l = chain(t, l, chain(t, concurrency(t, limit, 0), concurrency(t, limit+1, 0)))
			}
			_, rate := l.(core.Replenisher)
			rate = rate && name != "chain"
			for round := range rounds(t, 2000) {
				lease := l.TryAcquire(2)
				if !lease.Acquired() {
					t.Fatal("lost permits", lease.Err())
				}
				if name == "metadata" {
					lease = lease.With(core.ReasonPhrase.With("kept"))
				}
				var wins atomic.Int32
				var group sync.WaitGroup
				for i := range 3 {
					group.Go(func() { raceFor(l, lease, (round+i)%4, rate, &wins) })
				}
				group.Wait()
				if n := wins.Load(); n > 1 {
					t.Fatalf("settled %d times", n)
				}
				if rate && wins.Load() == 0 {
					l.Refund(lease) // only released or refunded, unknown to us: it is spent or not
				}
				if !rate && l.Available() != limit {
					t.Fatalf("%d available in round %d", l.Available(), round)
				}
			}
			available(t, l, limit)
		})
	}
}

// raceFor does one of the things that end a lease, and gives back what it got by that.
func raceFor(l everything, lease core.Lease, what int, rate bool, wins *atomic.Int32) {
	switch what {
	case 0:
		if rate {
			l.Refund(lease)
			return
		}
		lease.Release()
	case 1:
		l.Refund(lease)
	default:
		n := map[int]int{2: 1, 3: 5}[what]
		settled := l.Settle(lease, n)
		if settled.Permits() != n {
			return // it lost
		}
		wins.Add(1)
		if rand.IntN(2) == 0 {
			settled = l.Settle(settled, n+1)
		}
		l.Refund(settled)
		settled.Release()
		l.Refund(settled)
	}
}

// Many settle at once, up and down, while others wait: nothing is lost.
func TestStressSettleAndWait(t *testing.T) {
	const limit, workers = 4, 6
	inner := concurrency(t, limit, 1000)
	for name, l := range map[string]everything{"concurrency": inner, "chain": chain(t, inner), "view": core.WithReason(inner, "full").(everything)} {
		t.Run(name, func(t *testing.T) {
			var group sync.WaitGroup
			for w := range workers {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(w), 11))
					for range rounds(t, 1000) {
						lease, err := l.Acquire(t.Context(), random.IntN(limit+1))
						if err != nil {
							t.Error(err)
							return
						}
						for range random.IntN(4) {
							lease = l.Settle(lease, random.IntN(2*limit))
						}
						if random.IntN(2) == 0 {
							l.Refund(lease)
						}
						lease.Release()
					}
				})
			}
			group.Wait()
			available(t, l, limit)
			require.Zero(t, l.Statistics().Queued)
		})
	}
}

// A settler among others: a limiter that is none keeps its part, unless it has cost nothing.
func TestSettleAChainWithStrangers(t *testing.T) {
	slots, bare := concurrency(t, 9, 0), concurrency(t, 9, 0)
	refunds := concurrency(t, 9, 0)
	l := chain(t, bareLimiter{bare}, slots, refunder{bareLimiter{refunds}, refunds})
	lease := settles(t, l, takes(t, l, 3), 2)
	require.Equal(t, []int{6, 7, 6}, []int{bare.Available(), slots.Available(), refunds.Available()})
	lease = settles(t, l, lease, 5)
	require.Equal(t, []int{6, 4, 6}, []int{bare.Available(), slots.Available(), refunds.Available()})
	settles(t, l, lease, 0)
	require.Equal(t, []int{9, 9, 9}, []int{bare.Available(), slots.Available(), refunds.Available()})

	lease = settles(t, l, takes(t, l, 3), 1)
	lease.Release()
	require.Equal(t, []int{9, 9, 9}, []int{bare.Available(), slots.Available(), refunds.Available()})
}

// bareLimiter is a limiter and nothing else.
type bareLimiter struct{ core.Limiter }

type refunder struct {
	bareLimiter
	core.Refunder
}
