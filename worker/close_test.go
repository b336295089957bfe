package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Close lets the accepted tasks end, and their context ends with the pool.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		g := newGate()
		var kept context.Context
		submits(t, p, g.task, func(ctx context.Context) error {
			kept = ctx //nolint:fatcontext // it is looked at later
			return ctx.Err()
		}, fails)
		closed := later(func() error { return p.Close(t.Context()) })
		waiting(t, closed)
		require.ErrorIs(t, p.TrySubmit(nothing), core.ErrClosed)
		g.open()
		require.NoError(t, returned(t, closed))
		require.Equal(t, worker.ErrClosed, context.Cause(kept))
		require.Equal(t, worker.Statistics{Done: 3, Failed: 1}, p.Statistics())
		require.ErrorIs(t, p.Wait(t.Context()), errTask)
		drained(t, p, l)
	})
}

func TestCloseCancelsWhenItsContextIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		submits(t, p, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			return context.Cause(ctx)
		})
		submits(t, p, two(nothing)...)
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := p.Close(ctx)
		require.Equal(t, time.Minute, time.Since(start), "it does not wait for what it canceled")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "worker: closed with 1 running and 2 queued tasks canceled: context deadline exceeded")

		err = p.Wait(t.Context())
		require.Equal(t, time.Minute+time.Second, time.Since(start))
		require.ErrorIs(t, err, worker.ErrClosed)
		require.Equal(t, worker.Statistics{Done: 3, Failed: 3}, p.Statistics())
		require.NoError(t, p.Close(ctx), "nothing is left to cancel")
		drained(t, p, l)
	})
}

// The queued tasks that Close cancels do not run, even if no worker has looked at them yet.
func TestWhatCloseCancelsDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		canceled := func(name string) worker.Task {
			return func(context.Context) error {
				t.Errorf("the %s queued task ran", name)
				return nil
			}
		}
		submits(t, p, hears, canceled("first"), canceled("second"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.EqualError(t, p.Close(ctx), "worker: closed with 1 running and 2 queued tasks canceled: context canceled")
		require.ErrorIs(t, p.Wait(t.Context()), worker.ErrClosed)
		require.Equal(t, worker.Statistics{Done: 3, Failed: 3}, p.Statistics())
		drained(t, p, l)
	})
}
