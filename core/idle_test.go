package core_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func idleFor(t *testing.T, l core.Idler, want time.Duration) {
	t.Helper()
	d, idle := l.IdleFor()
	require.True(t, idle)
	require.Equal(t, want, d)
}

func busy(t *testing.T, l core.Idler) {
	t.Helper()
	d, idle := l.IdleFor()
	require.False(t, idle)
	require.Zero(t, d)
}

func TestIdleFor(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		idleFor(t, l, 0)
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
		lease := takes(t, l, 1)
		busy(t, l)
		if _, ok := l.(core.Replenisher); ok {
			time.Sleep(time.Second - 1)
			busy(t, l)
			time.Sleep(time.Minute + 1)
			idleFor(t, l, time.Minute)
		}
		lease.Release()
		lease = takes(t, l, 3)
		time.Sleep(500 * time.Millisecond)
		l.Refund(lease)
		idleFor(t, l, 0)
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
		l.TryAcquire(0)
		l.TryAcquire(9)
		idleFor(t, l, time.Minute) // neither takes anything
	})
}

// A concurrency limiter has been idle since it was first seen so.
func TestIdleSinceItWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2, 1)
		takes(t, l, 1).Release()
		time.Sleep(time.Minute)
		l.Statistics()
		time.Sleep(time.Second)
		idleFor(t, l, time.Second)
		takes(t, l, 1).Release()
		idleFor(t, l, 0)
		held := takes(t, l, 2)
		a := queues(t, l, 1)
		a.cancelled(t)
		held.Release()
		time.Sleep(time.Minute)
		idleFor(t, l, 0)
	})
}

// A lease of zero permits that is settled up holds permits that no grant has counted.
func TestIdleForAfterALeaseOfNothingWasSettledUp(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		end := func(lease core.Lease) { lease.Release() }
		if _, ok := l.(core.Replenisher); ok {
			end = l.Refund
		}
		for range 3 {
			zero := takes(t, l, 0)
			time.Sleep(time.Minute)
			l.Statistics()
			idle := func() bool { _, idle := l.IdleFor(); return idle }
			require.True(t, idle())
			lease := l.Settle(zero, 2)
			time.Sleep(100 * time.Millisecond)
			end(lease)
			idleFor(t, l, 0)
			time.Sleep(time.Second)
			idleFor(t, l, time.Second)
			takes(t, l, 0)
			idleFor(t, l, time.Second)
		}
	})
}

// However busy it was before.
func TestIdleForAfterManyGrants(t *testing.T) {
	eachOfFour(t, 3, 9, func(t *testing.T, l everything) {
		for range 5000 {
			lease := takes(t, l, 1)
			l.Refund(lease)
		}
		idleFor(t, l, 0)
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
	})
}

func TestAManualLimiterIsIdleSinceItWasReplenished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, ManualReplenishment: true})
		takes(t, l, 1)
		time.Sleep(time.Minute)
		busy(t, l)
		require.True(t, l.TryReplenish())
		idleFor(t, l, 0)
		time.Sleep(time.Minute)
		idleFor(t, l, time.Minute)
	})
}

// An idle limiter is a small struct: at most 256 bytes, no goroutine and no timer. A window that was used
// has 64 to 80 bytes more, in which it counts, and a concurrency limiter 32.
func TestAnIdleLimiterIsSmall(t *testing.T) {
	const n = 10_000
	for name, build := range map[string]func() core.Limiter{
		"concurrency": func() core.Limiter { return concurrency(t, 3, 3) },
		"bucket": func() core.Limiter {
			return bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		},
		"fixed": func() core.Limiter { return fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Hour}) },
		"sliding": func() core.Limiter {
			return sliding(t, core.SlidingWindowOptions{PermitLimit: 3, Window: time.Hour, SegmentsPerWindow: 60})
		},
	} {
		for _, used := range []bool{false, true} {
			all := make([]core.Limiter, n)
			most := int64(258)
			if used {
				most = 322
			}
			goroutines := runtime.NumGoroutine()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range all {
				all[i] = build()
				if used {
					all[i].TryAcquire(1).Release()
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			size := int64(after.HeapAlloc-before.HeapAlloc) / n
			t.Logf("%s, used %t: %d bytes", name, used, size)
			require.LessOrEqual(t, size, most)
			require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
			runtime.KeepAlive(all)
		}
	}
}

// A timer that is left behind would keep its limiter alive.
func TestNoTimerOutlivesTheLastWaiter(t *testing.T) {
	abandoned := func() weak.Pointer[core.TokenBucket] {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 9})
		takes(t, l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = l.Acquire(ctx, 1) })
		}
		for l.Statistics().Queued < 3 {
			runtime.Gosched()
		}
		cancel()
		all.Wait()
		return weak.Make(l)
	}()
	for range 3 {
		runtime.GC()
	}
	require.Nil(t, abandoned.Value())
}
