package core_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
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

// A grant that a cancellation undoes was none: the count does not go up and down again.
func TestGrantedNeverGoesDown(t *testing.T) {
	for _, name := range []string{"concurrency", "bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			for range 300 {
				synctest.Test(t, func(t *testing.T) {
					l := four(t, 1, 1)[name]
					lease := takes(t, l, 1)
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error)
					go func() {
						_, err := l.Acquire(ctx, 1)
						done <- err
					}()
					synctest.Wait()
					l.Refund(lease)
					granted := l.Statistics().Granted
					cancel()
					err := <-done
					after := l.Statistics().Granted
					require.GreaterOrEqual(t, after, granted)
					if err == nil {
						require.Equal(t, uint64(2), after)
					} else {
						require.Equal(t, uint64(1), after)
						available(t, l, 1)
					}
				})
			}
		})
	}
}

// However the releases meet, the limiter is idle from the last one on.
func TestStressIdleAfterContendedReleases(t *testing.T) {
	l := concurrency(t, 8, 0)
	for range testkit.Rounds(3000) {
		begun := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 3 {
					l.TryAcquire(1).Release()
				}
			})
		}
		all.Wait()
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.LessOrEqual(t, d, time.Since(begun))
	}
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
