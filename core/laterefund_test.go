package core_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A bucket that would have been full again had nothing more been taken owes nothing to a
// lease from before.
func TestALateRefundOfABucketMintsNothing(t *testing.T) {
	for name, manual := range map[string]bool{"automatic": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, core.TokenBucketOptions{
					TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: manual,
				})
				sleep := func(d time.Duration) {
					time.Sleep(d)
					l.TryReplenish()
				}
				a := takes(t, l, 5)
				sleep(5 * time.Second)
				takes(t, l, 5)
				l.Refund(a)
				available(t, l, 0)

				sleep(5 * time.Second)
				a = takes(t, l, 5)
				sleep(3 * time.Second)
				takes(t, l, 3) // so it is never full
				sleep(2 * time.Second)
				l.Refund(a)
				available(t, l, 2)

				sleep(3 * time.Second)
				a = takes(t, l, 4)
				sleep(time.Second)
				takes(t, l, 1)
				l.Refund(a) // one of the four has come back since
				available(t, l, 4)
			})
		})
	}
}

// A chain that waits long in its second limiter and is then cancelled gives the first no
// more than that still lacks.
func TestAChainCancelledLateMintsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		slots := concurrency(t, 5, 5)
		held := takes(t, slots, 5)
		a := queues(t, chain(t, rate, slots), 5)
		time.Sleep(5 * time.Second)
		takes(t, rate, 5)
		a.cancelled(t)
		available(t, rate, 0)
		held.Release()
	})
}

// Refunds in any order and at any time let through no more than a bucket with the same
// ticks would have if what was given back had never been taken.
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
			begun := time.Now()
			o := core.TokenBucketOptions{TokenLimit: 1 + random.IntN(9), ReplenishmentPeriod: time.Duration(1 + random.IntN(5))}
			o.TokensPerPeriod = 1 + random.IntN(o.TokenLimit)
			l := bucket(t, o)
			var grants []*grant
			var events []event
			for range 40 {
				now := int64(time.Since(begun))
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
				require.LessOrEqual(t, alone, o.TokenLimit, "%+v: %d of %d given back", o, e.g.given, e.g.n)
			}
		})
	}
}

// A window's lease gives nothing back after an update of the grid.
func TestRefundOfAWindowWhoseGridMoved(t *testing.T) {
	fixedOf := func(window time.Duration) core.FixedWindowOptions {
		return core.FixedWindowOptions{PermitLimit: 5, Window: window}
	}
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, fixedOf(time.Second))
		a := takes(t, l, 5)
		time.Sleep(1500 * time.Millisecond)
		takes(t, l, 5)
		require.NoError(t, l.Update(fixedOf(10*time.Second)))
		l.Refund(a) // has come back long ago
		available(t, l, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, fixedOf(10*time.Second))
		time.Sleep(4 * time.Second)
		a := takes(t, l, 2)
		time.Sleep(time.Second)
		require.NoError(t, l.Update(fixedOf(3*time.Second)))
		b := takes(t, l, 3)
		l.Refund(a) // an Update came between
		available(t, l, 0)
		l.Refund(b)
		available(t, l, 3)
	})
	synctest.Test(t, func(t *testing.T) {
		// Due, but not replenished yet: not given back twice.
		o := core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, ManualReplenishment: true}
		l := fixed(t, o)
		a := takes(t, l, 3)
		time.Sleep(time.Second)
		takes(t, l, 2)
		o.Window = time.Minute
		require.NoError(t, l.Update(o))
		available(t, l, 0)
		require.True(t, l.TryReplenish())
		available(t, l, 3)
		l.Refund(a)
		available(t, l, 3)
	})
}

// What a peak leaves behind is let go of.
func TestAnIdleLimiterForgetsItsRefunds(t *testing.T) {
	const n = 300_000
	var l *core.TokenBucket
	kept := keeps(func() {
		synctest.Test(t, func(t *testing.T) {
			l = bucket(t, core.TokenBucketOptions{TokenLimit: n, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
			leases := make([]core.Lease, n)
			for i := range leases {
				leases[i] = takes(t, l, 1)
			}
			for i := 0; i < n; i += 64 {
				l.Refund(leases[i])
			}
			time.Sleep(n * time.Second)
			_, idle := l.IdleFor()
			require.True(t, idle)
		})
	})
	require.Less(t, kept, 64<<10)
	require.Equal(t, n, l.Available())
}

// Tokens that were due at an Update, and wait for TryReplenish, make a bucket full sooner
// than those to come do.
func TestARefundBesideTokensSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 5)
		time.Sleep(3 * time.Second)
		o.QueueLimit = 1
		require.NoError(t, l.Update(o))
		a := takes(t, l, 3)
		left, ok := core.Remaining.From(a)
		require.True(t, ok)
		require.Equal(t, 2, left)

		time.Sleep(4 * time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 9) // without a it would be full
		takes(t, l, 9)
		l.Refund(a)
		available(t, l, 1)

		time.Sleep(2 * time.Second)
		o.QueueLimit = 2
		require.NoError(t, l.Update(o))
		a = takes(t, l, 1)
		l.Refund(a) // at once, so all of it
		available(t, l, 1)
	})
}

// Tokens that are set aside have not come: what is refunded before they do is given back.
func TestARefundBeforeTokensSetAsideCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 6, TokensPerPeriod: 3, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 4)
		time.Sleep(time.Second)
		o.TokenLimit = 3
		require.NoError(t, l.Update(o)) // three are due, of which one was missing
		a := takes(t, l, 2)
		l.Refund(a)
		available(t, l, 2)
		require.True(t, l.TryReplenish())
		available(t, l, 3)
	})
}

// What a manual window has given back is not given back again, at the cost of permits that
// an update of the grid found overdue.
func TestRefundBesideOverduePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, ManualReplenishment: true}
		l := fixed(t, o)
		a := takes(t, l, 5)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		takes(t, l, 5)
		time.Sleep(time.Second)
		o.Window = 3 * time.Second
		require.NoError(t, l.Update(o))
		l.Refund(a)
		available(t, l, 0)
		require.True(t, l.TryReplenish())
		available(t, l, 5)
	})
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

// Nor does a chain lose any of such a bucket's tokens when it is refused.
func TestARefusedChainReturnsAllToABucketThatIsNeverFullAgain(t *testing.T) {
	rate := bucket(t, core.TokenBucketOptions{TokenLimit: math.MaxInt, TokensPerPeriod: 1, ReplenishmentPeriod: math.MaxInt64})
	slots := concurrency(t, math.MaxInt, 0)
	takes(t, slots, 1)
	synctest.Test(t, func(t *testing.T) {
		rejected(t, chain(t, rate, slots), math.MaxInt, 0)
	})
	available(t, rate, math.MaxInt)
}
