package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// rates returns the rate limiters of four, with five permits a second.
func rates(tb testing.TB) map[string]everything {
	tb.Helper()
	l := four(tb, 5, 5)
	delete(l, "concurrency")
	l["slow bucket"] = bucket(tb, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5})
	l["bucket"] = bucket(tb, core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5, ManualReplenishment: true,
	})
	require.NoError(tb, l["bucket"].(*core.TokenBucket).Update(core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 5,
	}))
	return l
}

// From one bubble to the next the clock goes back. For the limiter it stands still.
func TestAClockThatGoesBackStandsStill(t *testing.T) {
	for _, name := range []string{"bucket", "slow bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			var l everything
			synctest.Test(t, func(t *testing.T) {
				l = rates(t)[name]
				time.Sleep(10*time.Second + 300*time.Millisecond)
				takes(t, l, 4)
				takes(t, l, 1)
			})
			left := time.Second
			if name == "fixed" || name == "sliding" {
				left = 700 * time.Millisecond
			}
			synctest.Test(t, func(t *testing.T) {
				available(t, l, 0)
				rejected(t, l, 1, left)
				time.Sleep(left - 1)
				rejected(t, l, 1, 1)
				a := queues(t, l, 2)
				time.Sleep(1)
				lease := a.granted(t)
				available(t, l, 3)
				l.Refund(lease)
				available(t, l, 5)
				idleFor(t, l, 0)
				time.Sleep(time.Minute)
				idleFor(t, l, time.Minute)
				takes(t, l, 1)
			})
			synctest.Test(t, func(t *testing.T) {
				available(t, l, 4)
				time.Sleep(time.Second)
				available(t, l, 5)
				takes(t, l, 1)
				time.Sleep(300 * time.Millisecond)
			})
			synctest.Test(t, func(t *testing.T) {
				// Back by less than a replenishment.
				available(t, l, 4)
				takes(t, l, 4)
				time.Sleep(time.Second)
				available(t, l, 5)
			})
		})
	}
}

// Into a bubble the clock leaps by decades, forward or back as the machine's monotonic
// clock has it, and out of it the other way.
func TestALimiterInAndOutOfBubbles(t *testing.T) {
	for _, name := range []string{"bucket", "slow bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			l := rates(t)[name]
			l.TryAcquire(5)
			for range 2 {
				synctest.Test(t, func(t *testing.T) {
					l.Available() // from the next call on, the time counts
					time.Sleep(time.Hour)
					takes(t, l, 5)
					retry, _ := core.RetryAfter.From(l.TryAcquire(1))
					require.LessOrEqual(t, retry, time.Second)
					time.Sleep(retry)
					takes(t, l, 5)
				})
				l.TryAcquire(5)
				retry, ok := core.RetryAfter.From(l.TryAcquire(5))
				require.True(t, ok)
				require.LessOrEqual(t, retry, time.Second)
			}
		})
	}
}

// A limiter that lives long beside many bubbles, as that of a package with many tests does,
// does not grow older by decades with each, until its clock has no more room.
func TestALimiterBesideManyBubbles(t *testing.T) {
	for name, l := range rates(t) {
		t.Run(name, func(t *testing.T) {
			for range 25 {
				synctest.Test(t, func(t *testing.T) {
					l.TryAcquire(5)
					time.Sleep(5 * time.Second)
					available(t, l, 5)
					takes(t, l, 5)
				})
				l.TryAcquire(5)
			}
		})
	}
}
