package core_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
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

// settles puts a lease right and finds that the one that stands in its place tells the same, and
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
	if n := lease.Permits(); n > 0 && n != permits && holds(l) {
		spent(tb, l, lease)
	}
	return settled
}

// holds reports whether l's leases hold permits, so that they are settled once.
func holds(l core.Limiter) bool {
	_, concurrency := core.As[*core.ConcurrencyLimiter](l)
	_, chain := core.As[*core.ChainedLimiter](l)
	return concurrency || chain
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
		if holds(l) {
			spent(t, l, lease)
		}
	})
}

// However many grants are out, and in whatever order they are settled, each gives back what it has
// not cost.
func TestSettleManyInAnyOrder(t *testing.T) {
	const n = 20_000
	for name, l := range four(t, n*5, 0) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l = four(t, n*5, 0)[name]
				random := rand.New(rand.NewPCG(1, 2))
				leases := make([]core.Lease, n)
				for i := range leases {
					leases[i] = takes(t, l, 5)
				}
				available(t, l, 0)
				first := slices.Clone(leases)
				for _, cost := range []int{3, 4, 1} {
					for _, i := range random.Perm(n) {
						leases[i] = l.Settle(leases[i], cost)
					}
					available(t, l, n*(5-cost))
				}
				for _, i := range random.Perm(n) {
					if holds(l) {
						require.Equal(t, first[i], l.Settle(first[i], 2), "spent")
					}
				}
				available(t, l, n*4)
				for _, i := range random.Perm(n) {
					l.Refund(leases[i])
				}
				available(t, l, n*5)
			})
		})
	}
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
		available(t, l, 5)
	})
}

func TestSettleALeaseOfZeroPermits(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, _ string, l everything) {
		lease := settles(t, l, takes(t, l, 0), 2)
		available(t, l, 3)
		lease = l.Settle(lease, 7)
		require.Equal(t, 7, lease.Permits())
		available(t, l, 0)
		lease = l.Settle(lease, 1) // what it was charged comes back
		available(t, l, 4)
		l.Settle(lease, 0)
		available(t, l, 5)
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
		if holds(l) {
			spent(t, l, bare)
		}
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
			core.Reject(), core.Fail(errors.New("some")), core.Grant(3, nil), core.Grant(3, func() { t.Error("released") }), theirs,
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

// What a lease tells is what it was told, however large the limit becomes.
func TestALeaseTellsTheSameAfterAnUpdate(t *testing.T) {
	for _, limits := range [][2]int{{5, math.MaxInt}, {math.MaxInt, 5}, {math.MaxInt32, math.MaxInt}, {5, 7}} {
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
	if testkit.Race {
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
	all["unlimited"] = core.Unlimited().(everything)
	maps.Copy(all, settlers(t, 1000, 0))
	for name, l := range all {
		require.Zero(t, testing.AllocsPerRun(300, func() {
			lease := l.TryAcquire(5)
			lease = l.Settle(lease, 3)
			l.Settle(lease, 1).Release()
		}), name)
		require.Zero(t, testing.AllocsPerRun(300, func() { l.Refund(l.TryAcquire(5)) }), name)
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

// The methods that a limiter has are its methods, promoted or not, whoever settles.
func TestSettleOfAnEmbeddingLimiterIsOneRule(t *testing.T) {
	for name, over := range map[string]func(core.Limiter) everything{
		"chain":            func(l core.Limiter) everything { return chain(t, l) },
		"chain of a chain": func(l core.Limiter) everything { return chain(t, core.Unlimited(), chain(t, l)) },
		"reason":           func(l core.Limiter) everything { return core.WithReason(l, "full").(everything) },
		"shadow":           func(l core.Limiter) everything { return core.Shadow(l).(everything) },
	} {
		t.Run(name, func(t *testing.T) {
			u := &undoes{ConcurrencyLimiter: concurrency(t, 10, 0)}
			l := over(u)
			lease := l.Settle(takes(t, l, 5), 2)
			require.Equal(t, 2, lease.Permits())
			available(t, l, 8)
			available(t, u, 8)
			lease = l.Settle(lease, 3)
			available(t, u, 7)
			l.Refund(lease)
			require.Equal(t, 1, u.refunds)
			available(t, u, 10)
		})
	}
}

// Unlimited and Shadow leave leases of others alone.
func TestSettleOfALeaseOfSomebodyElse(t *testing.T) {
	full := concurrency(t, 1, 0)
	takes(t, full, 1)
	other := core.Shadow(full).(everything)
	for name, l := range map[string]everything{
		"unlimited": core.Unlimited().(everything), "shadow": core.Shadow(full).(everything),
		"reason": core.WithReason(core.Unlimited(), "no").(everything), "chain": chain(t, core.Unlimited()),
	} {
		own := takes(t, l, 3)
		require.Equal(t, 5, l.Settle(own, 5).Permits(), name)
		own = takes(t, l, 3).With(core.ReasonPhrase.With("x"))
		require.Equal(t, 5, l.Settle(own, 5).Permits(), name)
		for _, foreign := range []core.Lease{
			core.Grant(3, nil), core.Grant(3, func() {}), core.Grant(3, nil, core.Shadowed.With(core.ErrClosed)),
			takes(t, other, 3), takes(t, core.Unlimited(), 3),
		} {
			require.Equal(t, foreign, l.Settle(foreign, 5), name)
			l.Refund(foreign)
		}
	}
}
