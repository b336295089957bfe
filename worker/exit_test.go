package worker_test

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// exitPanicking panics while its goroutine exits: a recover hides the panic from whoever
// looks for it, and the goroutine exits all the same.
func exitPanicking() {
	defer panic(errTask)
	runtime.Goexit()
}

// A panic while the goroutine exits loses no worker, wherever it comes: the next task runs.
func TestAPanicWhileExiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
		var told atomic.Int32 // the lease is back, so another task may panic meanwhile
		p := newPool(t, worker.Options{Limiter: l, Queue: 3, OnPanic: func(any, []byte) {
			if told.Add(1) == 2 {
				exitPanicking()
			}
		}})
		exits := func(context.Context) error { exitPanicking(); return nil }
		submits(t, p, two(exits)...)
		submits(t, p, nothing)
		require.ErrorIs(t, p.Wait(t.Context()), errTask, "of OnPanic")
		require.EqualValues(t, 2, told.Load())
		require.Equal(t, worker.Statistics{Done: 3, Panicked: 2}, p.Statistics())

		g := newGate()
		submits(t, p, g.task)
		l.acquire = func(context.Context, int) (core.Lease, error) {
			l.acquire = nil
			exitPanicking()
			return core.Lease{}, nil
		}
		submits(t, p, two(nothing)...)
		synctest.Wait()
		g.open()
		require.ErrorIs(t, p.Wait(t.Context()), errTask, "of the limiter")

		l.try = func(int) core.Lease {
			l.try = nil
			return core.Grant(1, exitPanicking)
		}
		submits(t, p, two(nothing)...)
		require.ErrorIs(t, p.Wait(t.Context()), errTask, "of a release")
		drained(t, p, l)
	})
}

// So it is where a Map submits: the loop ends as the limiter would have it, and not never.
func TestAPanicWhileExitingUnderMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
		l.try = func(int) core.Lease { exitPanicking(); return core.Lease{} }
		l.acquire = func(context.Context, int) (core.Lease, error) { return l.try(1), nil }
		p := newPool(t, worker.Options{Limiter: l})
		var errs []error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range worker.Map(t.Context(), p, slices.Values([]int{1, 2}), double) {
				errs = append(errs, err)
			}
		}()
		time.Sleep(time.Hour)
		<-ended
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], errTask)
		drained(t, p, l)
	})
}
