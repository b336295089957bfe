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
)

// Debts end at math.MaxInt; and when everything is returned, everything is there.
func TestSettleToTheUtmost(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		leases := []core.Lease{takes(t, l, 1), takes(t, l, 1), takes(t, l, 1)}
		for i := range leases {
			leases[i] = settles(t, l, leases[i], math.MaxInt)
			available(t, l, 0)
		}
		if retry, ok := core.RetryAfter.From(l.TryAcquire(5)); ok && !shadowed(name) {
			require.Positive(t, retry)
		}
		for i := range leases {
			if strings.HasSuffix(name, "concurrency") {
				available(t, l, 0)
			}
			settles(t, l, leases[i], 0)
			require.LessOrEqual(t, l.Available(), 5)
		}
		if strings.HasSuffix(name, "concurrency") {
			available(t, l, 5)
		}
	})
}

// A window returns the permits that would come back first: then no window of time has more grants than the limit.
func TestGiveBackOfTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		takes(t, l, 5)
		time.Sleep(time.Second)
		takes(t, l, 3)
		l.GiveBack(4)
		available(t, l, 6)
		time.Sleep(2 * time.Second)
		available(t, l, 7) // the one that was left of the first five
	})
}

// Refunds in any order and at any time let through no more than a bucket with the same
// ticks would if the refunded permits had never been taken.
func TestRefundsLetNothingMoreThrough(t *testing.T) {
	type grant struct {
		lease    core.Lease
		n, given int
	}
	type event struct {
		at    int64
		g     *grant
		given int // 0: the taking
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			o := core.TokenBucketOptions{TokenLimit: 1 + random.IntN(9), ReplenishmentPeriod: time.Duration(1 + random.IntN(5))}
			o.TokensPerPeriod = 1 + random.IntN(o.TokenLimit)
			l := bucket(t, o)
			var grants []*grant
			var events []event
			for range 40 {
				now := int64(time.Since(start))
				switch random.IntN(4) {
				case 0:
					time.Sleep(time.Duration(random.IntN(8)))
				case 1, 2:
					n := 1 + random.IntN(o.TokenLimit)
					if lease := l.TryAcquire(n); lease.Acquired() {
						grants = append(grants, &grant{lease: lease, n: n})
						events = append(events, event{at: now, g: grants[len(grants)-1]})
					}
				case 3:
					if len(grants) > 0 {
						i := random.IntN(len(grants))
						g := grants[i]
						grants = slices.Delete(grants, i, i+1)
						given := -l.Available()
						l.Refund(g.lease)
						if given += l.Available(); given > 0 {
							g.given = given
							events = append(events, event{now, g, given})
						}
					}
				}
			}
			whole := &naiveBucket{limit: o.TokenLimit, tokens: o.TokensPerPeriod, period: int64(o.ReplenishmentPeriod)}
			alone := 0 // what the bucket would lack
			for _, e := range events {
				for at, ok := whole.next(); ok && at <= e.at; at, ok = whole.next() {
					whole.pass(at)
					alone = max(alone-o.TokensPerPeriod, 0)
				}
				if e.given > 0 {
					whole.lack -= e.given
					continue
				}
				whole.take(e.at, 0, e.g.n)
				alone += e.g.n - e.g.given
				require.LessOrEqual(t, alone, o.TokenLimit, "%+v: %d of %d returned", o, e.g.given, e.g.n)
			}
		})
	}
}

// A bucket that takes longer than there are instants to be full again gets all back, but for
// the token of the tick that may have come right after the grant.
func TestARefundToABucketThatIsNeverFullAgain(t *testing.T) {
	for name, manual := range map[string]bool{"automatic": false, "manual": true} {
		for _, period := range []time.Duration{time.Second, math.MaxInt64} {
			t.Run(name+", a token every "+period.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := bucket(t, core.TokenBucketOptions{
						TokenLimit: math.MaxInt, TokensPerPeriod: 1, ReplenishmentPeriod: period, ManualReplenishment: manual,
					})
					all := takes(t, l, math.MaxInt)
					l.Refund(all)
					available(t, l, math.MaxInt)

					time.Sleep(1) // a grant of the instant of a refund gives less back
					a := takes(t, l, math.MaxInt-7)
					time.Sleep(1500 * time.Millisecond) // a token comes, or is due
					b := takes(t, l, 5)
					l.Refund(a)
					tick := 1
					if manual || math.MaxInt == math.MaxInt32 && period == time.Second { // the ticks are known
						tick = 0
					}
					available(t, l, math.MaxInt-5-tick)
					l.Refund(b)
					available(t, l, math.MaxInt-tick)
				})
			})
		}
	}
}

// A rate limiter remembers nothing of a lease: each refund returns permits, up to a full limiter.
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

// settlers returns limiters of each kind, bare, in chains and behind views, with that limit
// and room to wait. Permits of the rate limiters come back a second later at the latest.
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

// The same number, a number below 0, nothing, and a lease of zero permits.
func TestSettleToZeroAndFromZero(t *testing.T) {
	eachSettler(t, 5, 5, func(t *testing.T, name string, l everything) {
		lease := takes(t, l, 3)
		same := settles(t, l, lease, 3)
		available(t, l, 2)
		none := settles(t, l, same, -7)
		available(t, l, 5)
		if holds(l) {
			spent(t, l, lease)
		}
		before := l.Statistics()
		none.Release()
		l.Refund(none)
		require.Equal(t, none, l.Settle(none, 0))
		require.Equal(t, before, l.Statistics())

		again := []core.Lease{takes(t, l, 0)}
		if strings.HasPrefix(name, "chain") { // a chain has forgotten the parts of none
			require.Equal(t, none, l.Settle(none, 2))
		} else {
			again = append(again, none)
		}
		for _, lease := range again {
			lease = settles(t, l, lease, 2)
			available(t, l, 3)
			lease = l.Settle(lease, 7)
			require.Equal(t, 7, lease.Permits())
			available(t, l, 0)
			lease = l.Settle(lease, 1) // what it was charged comes back
			available(t, l, 4)
			l.Settle(lease, 0)
			available(t, l, 5)
		}
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

// Settle returns a lease of another limiter, or one that is no grant, unchanged.
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
				l.Refund(lease)
				require.Equal(t, before, l.Statistics())
			}
		}
		available(t, other, 2)
	})
}

// Unlimited and Shadow settle their own leases to any number of permits, and leave those of others alone.
func TestSettleWhatHoldsNothing(t *testing.T) {
	full := concurrency(t, 1, 0)
	takes(t, full, 1)
	other := core.Shadow(full).(everything)
	added := core.NewMetadataKey[string]("ADDED")
	for name, l := range map[string]everything{
		"unlimited": core.Unlimited().(everything), "shadow": core.Shadow(full).(everything),
		"reason": core.WithReason(core.Unlimited(), "no").(everything), "chain": chain(t, core.Unlimited()),
	} {
		for _, lease := range []core.Lease{takes(t, l, 3), takes(t, l, 3).With(added.With("it")), takes(t, l, math.MaxInt)} {
			for _, n := range []int{7, math.MaxInt, 2, -1} {
				settled := l.Settle(lease, n)
				require.True(t, settled.Acquired(), name)
				require.Equal(t, max(n, 0), settled.Permits(), name)
				require.Equal(t, maps.Collect(lease.Metadata()), maps.Collect(settled.Metadata()), name)
				lease = settled
			}
		}
		for _, foreign := range []core.Lease{
			{},
			core.Reject(), core.Grant(3, nil), core.Grant(3, func() { t.Error("released") }),
			core.Grant(3, nil, core.Shadowed.With(core.ErrClosed)),
			takes(t, other, 3), takes(t, core.Unlimited(), 3), takes(t, concurrency(t, 5, 0), 1),
		} {
			require.Equal(t, foreign, l.Settle(foreign, 5), name)
			l.Refund(foreign)
		}
	}
	available(t, full, 0)
}

// However old the grant is: its ticks lie further apart than an int64 of nanoseconds reaches.
func TestALateRefundAfterCenturies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period = 1 << 62 // 146 years
		o := core.TokenBucketOptions{TokenLimit: 40, TokensPerPeriod: 4, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 1)
		o.ReplenishmentPeriod = period // the tick before the next one is centuries ago
		require.NoError(t, l.Update(o))
		a := takes(t, l, 20)
		time.Sleep(period + 2*time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 27)
		takes(t, l, 20)
		l.Refund(a)
		available(t, l, 20) // without it, only the last twenty
	})
}

// A grant of a bucket that is settled twice returns what one of the fewer permits would.
func TestAGrantThatIsSettledInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: 4 * time.Second})
		a := takes(t, l, 2)
		time.Sleep(5 * time.Second)
		takes(t, l, 1)
		a = l.Settle(a, 1)
		available(t, l, 1)
		l.Refund(a) // had it been none from the beginning, the one would still be out
		available(t, l, 1)
	})
}
