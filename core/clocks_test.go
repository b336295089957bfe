package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// clocked returns rate limiters all of whose permits are back after a second.
func clocked(tb testing.TB) map[string]everything {
	tb.Helper()
	l := rates(tb)
	l["smooth bucket"] = bucket(tb, core.TokenBucketOptions{
		TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: 200 * time.Millisecond, QueueLimit: 50,
	})
	l["calendar"] = fixed(tb, core.FixedWindowOptions{
		PermitLimit: 5, Window: time.Second, QueueLimit: 50, Anchor: time.Date(2024, 2, 29, 12, 0, 0, 1, time.UTC),
	})
	l["many segments"] = sliding(tb, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 1000, QueueLimit: 50})
	return l
}

// soon finds that a refusal is over within a second.
func soon(t *testing.T, l core.Limiter, permits int) {
	t.Helper()
	lease := l.TryAcquire(permits)
	if lease.Acquired() {
		lease = l.TryAcquire(permits)
	}
	if !lease.Acquired() {
		retry, ok := core.RetryAfter.From(lease)
		require.True(t, ok)
		require.Positive(t, retry)
		require.LessOrEqual(t, retry, time.Second)
	}
	if reset, ok := core.ResetAfter.From(lease); ok {
		require.GreaterOrEqual(t, reset, time.Duration(0))
		require.LessOrEqual(t, reset, time.Second)
	}
}

// places are where a limiter is used: outside all bubbles, in one, and in one whose clock is
// far ahead of another's.
var places = map[byte]func(t *testing.T, l everything){
	'o': func(t *testing.T, l everything) {
		begun := time.Now()
		soon(t, l, 5)
		soon(t, l, 1)
		d, _ := l.IdleFor() // idle at most since a window has ended here, in real time
		require.LessOrEqual(t, d, time.Since(begun))
	},
	'b': waitsASecond,
	'd': func(t *testing.T, l everything) {
		soon(t, l, 1) // the decades of a leap count from here
		time.Sleep(10_000 * time.Hour)
		waitsASecond(t, l)
	},
}

// waitsASecond finds that nobody waits longer than a second from the first call on.
func waitsASecond(t *testing.T, l everything) {
	t.Helper()
	begun := time.Now()
	soon(t, l, 3)
	first := acquires(t, l, 5)
	time.Sleep(time.Second)
	synctest.Wait()
	require.True(t, first.done.Load(), "waits for more than a second: %v", l)
	require.NoError(t, first.err)
	require.LessOrEqual(t, first.at.Sub(begun), time.Second)
	soon(t, l, 5)
	d, idle := l.IdleFor()
	require.False(t, idle, d)
	time.Sleep(time.Second)
	available(t, l, 5)
	takes(t, l, 4)
	l.Refund(takes(t, l, 1))
}

// One limiter is used here and there, in any order, and also made there: nobody waits, and no
// refusal lasts, longer than one full replenishment from the next call on.
func TestALimiterInAllPlaces(t *testing.T) {
	for name := range clocked(t) {
		t.Run(name, func(t *testing.T) {
			for word := range 3 * 3 * 3 * 3 * 3 {
				var l everything
				visits := make([]byte, 5)
				for i, n := 0, word; i < 5; i, n = i+1, n/3 {
					visits[i] = "obd"[n%3]
				}
				for i := range visits {
					visit := func(t *testing.T) {
						if l == nil {
							l = clocked(t)[name]
						}
						places[visits[i]](t, l)
					}
					if visits[i] == 'o' {
						visit(t)
					} else {
						synctest.Test(t, visit)
					}
					if t.Failed() {
						t.Fatalf("in %q, at %d", visits, i)
					}
				}
			}
		})
	}
}
