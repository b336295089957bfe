package worker_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

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
		drained(t, p, l)
	})
}
