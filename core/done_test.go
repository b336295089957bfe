package core_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// asked counts how often its Done was asked for, and calls first before it answers.
type asked struct {
	context.Context
	done  atomic.Int64
	first func()
}

func (a *asked) Done() <-chan struct{} {
	a.done.Add(1)
	if a.first != nil {
		a.first()
	}
	return a.Context.Done()
}

// Whoever is told of a context's Done being asked for takes it that the caller waits.
func TestWhoDoesNotWaitDoesNotAskForDone(t *testing.T) {
	eachOfFour(t, 2, 2, func(t *testing.T, l everything) {
		ctx := &asked{Context: t.Context()}
		asks := func(permits int) error {
			_, err := l.Acquire(ctx, permits)
			return err
		}
		require.NoError(t, asks(1), "granted in one swap")
		require.Error(t, asks(3), "more than the limit")
		require.Error(t, asks(-1))
		waiting := queues(t, l, 2)
		require.NoError(t, asks(0), "granted while somebody waits")
		require.ErrorIs(t, asks(1), core.ErrRejected, "the queue is full")
		waiting.cancelled(t)
		require.NoError(t, asks(1))
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, asks(1))
		require.Zero(t, ctx.done.Load())
	})
}

func TestWhoIsRefusedAtOnceDoesNotAskForDone(t *testing.T) {
	eachOfFour(t, 2, 1, func(t *testing.T, l everything) {
		takes(t, l, 1)
		ctx := &asked{Context: t.Context()}
		_, err := l.Acquire(ctx, 2)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Zero(t, ctx.done.Load())
	})
}

func TestWhoWouldWaitTooLongDoesNotAskForDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, l := range four(t, 1, 1) {
			if name == "concurrency" {
				continue // it does not know how long
			}
			takes(t, l, 1)
			short, cancel := context.WithTimeout(t.Context(), time.Second/4)
			ctx := &asked{Context: short}
			_, err := l.Acquire(ctx, 1)
			rejection(t, err, "deadline too soon", time.Second)
			require.Zero(t, ctx.done.Load(), name)
			cancel()
		}
	})
}
