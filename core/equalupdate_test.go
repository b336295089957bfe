package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// reload updates a limiter to the options that it has.
func reload(tb testing.TB, l core.Limiter) {
	tb.Helper()
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		require.NoError(tb, l.Update(l.Options()))
	case *core.TokenBucket:
		require.NoError(tb, l.Update(l.Options()))
	case *core.FixedWindow:
		require.NoError(tb, l.Update(l.Options()))
	case *core.SlidingWindow:
		require.NoError(tb, l.Update(l.Options()))
	case *core.ChainedLimiter:
		for _, part := range l.Limiters() {
			reload(tb, part)
		}
	default:
		tb.Errorf("%T", l)
	}
}

// A configuration that is loaded again and again to the same values changes nothing: refunds
// are whole, and waiters keep their place and their time.
func TestEqualUpdatesChangeNothing(t *testing.T) {
	eachOfFour(t, 5, 9, func(t *testing.T, l everything) {
		time.Sleep(150 * time.Millisecond)
		first, second := takes(t, l, 3), takes(t, l, 1)
		for range 100 {
			reload(t, l)
		}
		l.Refund(first)
		available(t, l, 4)
		second = l.Settle(second, 5)
		for range 100 {
			reload(t, l)
		}
		l.Refund(second)
		available(t, l, 5)

		takes(t, l, 5)
		before := l.TryAcquire(2)
		a := queues(t, l, 3)
		b := queues(t, l, 2)
		statistics := l.Statistics()
		retry, timed := core.RetryAfter.From(before) // of two, which fit when three do
		for range 100 {
			reload(t, l)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, statistics, l.Statistics())
		if !timed {
			a.cancel()
			b.cancel()
			return
		}
		time.Sleep(retry - 100*time.Millisecond)
		a.granted(t)
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, b.done.Load())
		require.NoError(t, b.err)
	})
}

// They do not even make another epoch.
func TestEqualUpdatesAllocateNothing(t *testing.T) {
	for name, l := range four(t, 5, 5) {
		lease := takes(t, l, 2)
		require.Zero(t, testing.AllocsPerRun(100, func() { reload(t, l) }), name)
		l.Refund(lease)
		available(t, l, 5)
	}
}

// The first limiter of a chain that waits in the second is reloaded all that time; what was
// taken of it comes back whole.
func TestEqualUpdatesUnderAChainThatWaits(t *testing.T) {
	for _, end := range []string{"cancel", "deadline", "refund"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rate := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: 24 * time.Hour})
				window := fixed(t, core.FixedWindowOptions{PermitLimit: 5, Window: 24 * time.Hour})
				slots := concurrency(t, 4, 9)
				held := takes(t, slots, 4)
				c := chain(t, rate, window, slots)
				timeout := time.Duration(0)
				if end == "deadline" {
					timeout = 100*time.Second + 1
				}
				a := acquiresWithin(t, c, 4, timeout)
				a.waits(t)
				for range 100 {
					reload(t, c)
					time.Sleep(time.Second)
				}
				available(t, rate, 1)
				available(t, window, 1)
				switch end {
				case "cancel":
					a.cancelled(t)
				case "deadline":
					time.Sleep(1)
					synctest.Wait()
					require.True(t, a.done.Load())
					require.EqualError(t, a.err, "context deadline exceeded")
				case "refund":
					held.Release()
					c.Refund(a.granted(t))
				}
				available(t, rate, 5)
				available(t, window, 5)
				held.Release()
				available(t, c, 4)
			})
		})
	}
}
