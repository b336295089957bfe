package core_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// keeps returns how many bytes more the heap has after f.
func keeps(f func()) int {
	size := func() int {
		for range 3 {
			runtime.GC() // a sync.Pool takes two to let go
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := size()
	f()
	return size() - before
}

func TestAPeakOfLeasesLeavesNothingBehind(t *testing.T) {
	const n = 170_000
	l := concurrency(t, n, 0)
	kept := keeps(func() {
		leases := make([]core.Lease, n)
		for i := range leases {
			leases[i] = takes(t, l, 1)
		}
		for _, lease := range leases {
			lease.Release()
		}
	})
	require.Less(t, kept, 64<<10)
	available(t, l, n)
}

func idleFor(t *testing.T, l core.Idler, want time.Duration) {
	t.Helper()
	d, idle := l.IdleFor()
	require.True(t, idle)
	require.Equal(t, want, d)
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
		a.canceled(t)
		held.Release()
		time.Sleep(time.Minute)
		idleFor(t, l, 0)
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

// What people print is a line that they can read.
func TestStrings(t *testing.T) {
	api, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "api", PermitLimit: 3})
	require.NoError(t, err)
	rate := bucket(t, core.PerSecond(20, 5))
	for want, v := range map[string]any{
		"lease of 2 permits of \"api\"":                               api.TryAcquire(2),
		"lease of 0 permits of \"api\"":                               api.TryAcquire(0),
		"lease of 1 permit":                                           core.Grant(1, nil),
		"no lease: \"api\" rejected 2 permits: 1 of 3 available":      api.TryAcquire(2),
		"no lease: negative permits":                                  api.TryAcquire(-2),
		"no lease: rejected":                                          core.Lease{},
		"no lease: 4 permits are more than the limit of 3 of \"api\"": api.TryAcquire(4),
	} {
		require.Equal(t, want, fmt.Sprint(v))
	}
	mine := &stranger{Limiter: api}
	fixedDay := fixed(t, core.FixedWindowOptions{PermitLimit: 7, Window: 24 * time.Hour})
	for want, l := range map[string]core.Limiter{
		`concurrency limiter "api": 1 of 3 available, 0 queued, 2 granted, 1 rejected`:                              api,
		"token bucket of 1 per 50ms: 5 of 5 available, 0 queued, 0 granted, 0 rejected":                             rate,
		"fixed window of 24h0m0s: 7 of 7 available, 0 queued, 0 granted, 0 rejected":                                fixedDay,
		`token bucket of 1 per 50ms: 5 of 5 available, 0 queued, 0 granted, 0 rejected, rejecting with "slow down"`: core.WithReason(rate, "slow down"),
		"*core_test.stranger: 1 available, rejecting with \"no\"":                                                   core.WithReason(mine, "no"),
		`no limiter, rejecting with "why"`:                                                                          core.WithReason(nil, "why"),
		"chain of 2: 1 of 3 available, 0 queued, 0 granted, 0 rejected":                                             chain(t, api, rate),
	} {
		require.Equal(t, want, fmt.Sprint(l))
	}
	require.Contains(t, fmt.Sprint(core.Unlimited()), "unlimited: ")
}
