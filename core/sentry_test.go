package core_test

import (
	"bytes"
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

// watchers returns how many goroutines of limiters wait in the place of callers.
func watchers() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("core.(*engine).stand("))
}

func TestWaitersOfOneContextAreCancelledTogether(t *testing.T) {
	eachOfFour(t, 1, 3*many, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		before := l.Statistics()
		ctx, cancel := context.WithCancel(t.Context())
		probes := all(ctx, l, 1, 0)
		errs := all(ctx, l, many, 1)
		require.Equal(t, 1, watchers())
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
			require.Equal(t, 1, watchers())
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

// The same while somebody else keeps waiting.
func TestOneContextAfterTheOtherIsWatched(t *testing.T) {
	eachOfFour(t, 1, 2*many, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		stays := queues(t, l, 1)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			errs := all(ctx, l, many, 1)
			require.Equal(t, 1, watchers())
			cancel()
			synctest.Wait()
			require.Len(t, errs, many)
			require.Zero(t, watchers())
		}
		l.Refund(held)
		stays.granted(t)
	})
}

// Who was watched for has got its permit, and what it waited with is used for a stranger.
func TestAStrangerIsNotTakenForOneThatWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 2*many)
		held := takes(t, l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, many)
		for i := range many {
			go func() {
				lease, err := l.Acquire(ctx, 1)
				if i < many/2 {
					lease.Release()
				}
				errs <- err
			}()
			synctest.Wait()
		}
		held.Release()
		synctest.Wait()
		require.Len(t, errs, many/2+1)
		stranger := queues(t, l, 1)
		require.Equal(t, 1, watchers())
		cancel()
		stranger.waits(t)
		require.Len(t, errs, many)
		require.NoError(t, l.Close())
		stranger.fails(t, core.ErrClosed)
	})
}

// A context outlives the room, and is done when nobody waits, or others do.
func TestAContextIsWatchedNoLongerThanSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, many)
		ctx, cancel := context.WithCancel(t.Context())
		held := takes(t, l, 1)
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
		require.Equal(t, 1, watchers())
		held.Release()
		done.Wait()
		counts(t, l, 1, 1, 0, many+1, 0)
		synctest.Wait()
		require.Zero(t, watchers())

		held = takes(t, l, 1)
		stranger := queues(t, l, 1)
		cancel()
		synctest.Wait()
		held.Release()
		stranger.granted(t)
	})
}

func TestContextsOfTheirOwnAreNotWatched(t *testing.T) {
	eachOfFour(t, 1, 2*many, func(t *testing.T, l everything) {
		takes(t, l, 1)
		for range many {
			queues(t, l, 1)
			all(context.WithoutCancel(t.Context()), l, 1, 1)
		}
		require.Zero(t, watchers())
		require.NoError(t, l.Close())
	})
}

// Several find at once that their context is worth being watched.
func TestOneContextIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 3*many)
		takes(t, l, 1)
		slow := &asked{Context: endless{t.Context(), make(chan struct{})}, first: func() { time.Sleep(1) }}
		errs := all(slow, l, 3*many, 1)
		time.Sleep(1)
		synctest.Wait()
		require.Equal(t, 1, watchers())
		require.NoError(t, l.Close())
		for range 3 * many {
			require.Equal(t, core.ErrClosed, <-errs)
		}
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
