package core_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// resettable is a limiter that can be made as new.
type resettable interface {
	everything
	core.Resetter
}

// eachRate runs a test on each rate limiter, of five permits a second, alone and in views.
func eachRate(t *testing.T, test func(t *testing.T, name string, l resettable)) {
	t.Helper()
	for _, name := range []string{"bucket", "slow bucket", "fixed", "sliding", "manual", "reasoned", "chain"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := rates(t)
				all["manual"] = fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 5, ManualReplenishment: true})
				all["reasoned"] = core.WithReason(all["fixed"], "full").(everything)
				all["chain"] = chain(t, all["bucket"], all["sliding"])
				l, ok := all[name].(resettable)
				require.True(t, ok)
				test(t, name, l)
			})
		})
	}
}

// drained takes all five permits.
func drained(t *testing.T, l core.Limiter) core.Lease {
	t.Helper()
	lease := takes(t, l, 5)
	available(t, l, 0)
	return lease
}

func TestResetMakesAsNew(t *testing.T) {
	eachRate(t, func(t *testing.T, _ string, l resettable) {
		time.Sleep(300 * time.Millisecond)
		lease := drained(t, l)
		refusedBefore := l.TryAcquire(1)
		require.False(t, refusedBefore.Acquired())
		l.Reset()
		available(t, l, 5)
		idleFor(t, l, 0)
		l.Refund(lease) // from before it: nothing comes back twice
		available(t, l, 5)
		counts(t, l, 5, 5, 0, 1, 1) // statistics stay
		l.Reset()
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
		lease = drained(t, l)
		l.Refund(lease)
		available(t, l, 5)
	})
}

func TestResetForgetsDebtsAndServes(t *testing.T) {
	eachRate(t, func(t *testing.T, _ string, l resettable) {
		lease := l.Settle(takes(t, l, 2), 50)
		available(t, l, 0)
		a, b := queues(t, l, 2), queues(t, l, 3)
		l.Reset()
		a.granted(t)
		b.granted(t)
		available(t, l, 0)
		l.Refund(lease)
		lease.Release()
		require.Equal(t, 0, l.Available())
		counts(t, l, 5, 0, 0, 3, 0)
	})
}

// A bucket's clock starts anew; a window's grid stays.
func TestTheClockAfterAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		takes(t, b, 3)
		time.Sleep(700 * time.Millisecond)
		b.Reset()
		takes(t, b, 3)
		rejected(t, b, 1, time.Second)

		w := sliding(t, core.SlidingWindowOptions{PermitLimit: 3, Window: time.Second, SegmentsPerWindow: 2})
		time.Sleep(700 * time.Millisecond)
		takes(t, w, 3)
		w.Reset()
		takes(t, w, 3)
		rejected(t, w, 1, 800*time.Millisecond)
		time.Sleep(800 * time.Millisecond)
		available(t, w, 3)
	})
}

// What is due but not yet applied under manual terms is gone with all else.
func TestResetUnderManualTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true}
		l := bucket(t, o)
		takes(t, l, 5)
		time.Sleep(2 * time.Second)
		o.TokensPerPeriod = 2
		require.NoError(t, l.Update(o))
		l.Reset()
		available(t, l, 5)
		require.False(t, l.TryReplenish())
		takes(t, l, 5)
		time.Sleep(time.Second)
		require.True(t, l.TryReplenish())
		available(t, l, 2)
	})
}

func TestResetAfterCloseAndOfNone(t *testing.T) {
	eachRate(t, func(t *testing.T, name string, l resettable) {
		drained(t, l)
		require.NoError(t, l.Close())
		l.Reset()
		available(t, l, 5)
		refused(t, l, 1, core.ErrClosed)
		if name == "chain" {
			return
		}
		_, err := l.Acquire(t.Context(), 1)
		require.Equal(t, core.ErrClosed, err)
	})
	for _, l := range []core.Resetter{new(core.TokenBucket), new(core.FixedWindow), new(core.SlidingWindow), new(core.ChainedLimiter)} {
		l.Reset()
	}
}

// What is held of a concurrency limiter stays held, so it is no Resetter; a chain resets those
// that are.
func TestResetOfAConcurrencyLimiter(t *testing.T) {
	slots := concurrency(t, 5, 0)
	_, ok := core.Limiter(slots).(core.Resetter)
	require.False(t, ok)
	for _, view := range []core.Limiter{core.WithReason(slots, "full"), core.Shadow(slots), core.Unlimited()} {
		_, ok = view.(core.Resetter)
		require.False(t, ok)
	}
	rate := bucket(t, core.Every(time.Hour, 5))
	c := chain(t, slots, chain(t, rate))
	lease := takes(t, c, 5)
	c.Reset()
	available(t, slots, 0)
	available(t, rate, 5)
	lease.Release()
	available(t, c, 5)
}

// Resets beside all else: nobody waits for ever, and in the end all is there.
func TestStressReset(t *testing.T) {
	for name, l := range map[string]resettable{
		"bucket":  bucket(t, core.TokenBucketOptions{TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 1000}),
		"fixed":   fixed(t, core.FixedWindowOptions{PermitLimit: 4, Window: time.Hour, QueueLimit: 1000}),
		"sliding": sliding(t, core.SlidingWindowOptions{PermitLimit: 4, Window: time.Hour, SegmentsPerWindow: 3, QueueLimit: 1000}),
	} {
		t.Run(name, func(t *testing.T) {
			var workers, resetter sync.WaitGroup
			done := make(chan struct{})
			for w := range 4 {
				workers.Go(func() {
					for i := range testkit.Rounds(1000) {
						lease, err := l.Acquire(t.Context(), 1+(w+i)%4)
						if err != nil {
							t.Error(err)
							return
						}
						switch i % 3 {
						case 0:
							l.Refund(lease)
						case 1:
							l.Refund(l.Settle(lease, i%7))
						}
					}
				})
			}
			resetter.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						l.Reset()
						if n := l.Available(); n > 4 {
							t.Errorf("%d available", n)
						}
						time.Sleep(time.Microsecond)
					}
				}
			})
			workers.Wait()
			close(done)
			resetter.Wait()
			l.Reset()
			available(t, l, 4)
		})
	}
}

// A request is let through at its estimate; when its cost is known, it is settled. What it has
// cost more is owed, and nobody is let through until that is paid.
func ExampleTokenBucket_Settle() {
	tokens, _ := core.NewTokenBucket(core.Every(time.Hour, 100)) // 100 at once, then one an hour

	cheap := tokens.TryAcquire(60)
	fmt.Println("estimated:", tokens.Available())
	cheap = tokens.Settle(cheap, 10)
	fmt.Println("cost", cheap.Permits(), "and left", tokens.Available())

	dear := tokens.TryAcquire(60)
	tokens.Settle(dear, 91)
	retry, _ := core.RetryAfter.From(tokens.TryAcquire(1))
	fmt.Println("owing 1:", tokens.Available(), retry.Round(time.Hour))
	// Output:
	// estimated: 40
	// cost 10 and left 90
	// owing 1: 0 2h0m0s
}

// Somebody was locked out by mistake.
func ExampleTokenBucket_Reset() {
	logins, _ := core.NewTokenBucket(core.Every(time.Hour, 3))
	for range 5 {
		logins.TryAcquire(1)
	}
	fmt.Println(logins.TryAcquire(1).Acquired())
	logins.Reset()
	fmt.Println(logins.TryAcquire(1).Acquired())
	fmt.Println(logins.Statistics())
	// Output:
	// false
	// true
	// 2 of 3 available, 0 queued, 4 granted, 3 rejected
}
