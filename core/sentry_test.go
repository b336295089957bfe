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
)

// many is more waiters with one context than it takes to have its Done watched for them.
const many = 40

// all has n goroutines ask for permits with one context, and returns when they
// wait. The errors come when they have ended.
func all(ctx context.Context, l core.Limiter, n, permits int) <-chan error {
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := l.Acquire(ctx, permits)
			errs <- err
		}()
		synctest.Wait()
	}
	return errs
}

func TestWaitersOfOneContextAreCancelledTogether(t *testing.T) {
	eachOfFour(t, 1, 3*many, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		before := l.Statistics()
		ctx, cancel := context.WithCancel(t.Context())
		probes := all(ctx, l, 1, 0)
		errs := all(ctx, l, many, 1)
		probesToo := all(ctx, l, 1, 0)
		stranger := queues(t, l, 1)
		later := all(ctx, l, 1, 1)
		start := time.Now()

		cancel()
		synctest.Wait()

		require.Len(t, errs, many)
		for range many {
			require.Equal(t, context.Canceled, <-errs)
		}
		require.Equal(t, context.Canceled, <-probes)
		require.Equal(t, context.Canceled, <-probesToo)
		require.Equal(t, context.Canceled, <-later)
		require.Equal(t, start, time.Now())
		after := l.Statistics()
		require.Equal(t, 1, after.Queued, "the stranger's")
		require.Equal(t, before.Granted, after.Granted, "a cancelled waiter is not granted")
		require.Equal(t, before.Rejected, after.Rejected, "nor rejected")

		l.Refund(held)
		synctest.Wait()
		stranger.granted(t)
	})
}

// What was cancelled makes room for whoever fits, and the context of the next job is watched
// as well.
func TestAfterOneContextAnotherIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2, 3*many)
		held := takes(t, l, 1)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			errs := all(ctx, l, many, 2)
			small := queues(t, l, 1)
			cancel()
			for range many {
				require.Equal(t, context.Canceled, <-errs)
			}
			small.granted(t).Release()
		}
		held.Release()
		takes(t, l, 2)
	})
}

// A context outlives the room, and is done when nobody waits, or others do.
func TestAContextIsWatchedNoLongerThanSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, many)
		ctx, cancel := context.WithCancel(t.Context())
		held := takes(t, l, 1)
		before := runtime.NumGoroutine()
		var done sync.WaitGroup
		for range many {
			done.Go(func() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				lease.Release()
			})
		}
		synctest.Wait()
		held.Release()
		done.Wait()
		counts(t, l, 1, 1, 0, many+1, 0)
		synctest.Wait()
		require.Equal(t, before, runtime.NumGoroutine(), "nobody watches any more")

		held = takes(t, l, 1)
		stranger := queues(t, l, 1)
		cancel()
		synctest.Wait()
		held.Release()
		stranger.granted(t)
	})
}

// Grants and a cancellation of all meet; none keeps a permit, and none waits for ever.
func TestStressOneContextForAll(t *testing.T) {
	for range rounds(t, 400) {
		l := concurrency(t, 2, 2*many)
		ctx, cancel := context.WithCancel(t.Context())
		var c tally
		var done sync.WaitGroup
		for i := range many {
			done.Go(func() {
				for j := 0; ; j++ {
					lease, err := l.Acquire(ctx, 1+i%2)
					if !c.saw(t, 1+i%2, err) {
						return
					}
					c.release(lease)
					if i == 0 && j == 20 {
						cancel()
					}
				}
			})
		}
		done.Wait()
		cancel()
		s := l.Statistics()
		require.Equal(t, core.Statistics{Limit: 2, Available: 2, Granted: c.granted.Load()}, s)
		require.LessOrEqual(t, c.most.Load(), int64(2))
		require.Equal(t, uint64(many), c.cancelled.Load())
	}
}
