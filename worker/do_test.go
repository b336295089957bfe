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

type key struct{}

func TestDoReturnsWhatTheFunctionDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		ctx := context.WithValue(t.Context(), key{}, 42)
		v, err := worker.Do(ctx, p, func(ctx context.Context) (any, error) {
			require.Zero(t, l.Available(), "it runs under a lease")
			return ctx.Value(key{}), errTask
		})
		require.Equal(t, 42, v, "its context is the caller's")
		require.ErrorIs(t, err, errTask)
		require.Equal(t, 1, l.Available(), "which is back by now")
		require.Equal(t, worker.Statistics{Done: 1, Failed: 1}, p.Statistics())

		_, err = worker.Do(ctx, p, func(context.Context) (int, error) { panic(errTask) })
		require.ErrorAs(t, err, new(*worker.PanicError))
		_, err = worker.Do(ctx, p, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
		require.ErrorIs(t, err, worker.ErrGoexit)
		_, err = worker.Do[int](ctx, p, nil)
		require.Error(t, err)
		require.NoError(t, p.Wait(ctx), "these errors were the callers'")
		drained(t, p, l)
	})
}

func TestCloseReachesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		var cause error
		do := later(func() error {
			_, err := worker.Do(t.Context(), p, func(ctx context.Context) (int, error) {
				cause = hears(ctx)
				return 0, ctx.Err()
			})
			return err
		})
		waiting(t, do)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Close(done), context.Canceled)
		require.Equal(t, context.Canceled, returned(t, do))
		require.Equal(t, worker.ErrClosed, cause)
		drained(t, p, l)
	})
}

// late is a context that has ended a while before its channel says so, as any may seem to
// a goroutine that waits for a CPU.
type late struct {
	context.Context

	over atomic.Bool
	done chan struct{}
}

func (l *late) Done() <-chan struct{} { return l.done }

func (l *late) Err() error {
	if l.over.Load() {
		return context.Canceled
	}
	return nil
}

func TestDoStartsNothingOnceItsContextIsDone(t *testing.T) {
	for permits := range 2 { // the limiter is asked for the lease of Do's task, or a plain permit is there
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 1+permits)
			p := newPool(t, worker.Options{Limiter: l, Queue: 2})
			g := newGate()
			require.NoError(t, p.SubmitN(t.Context(), 1+permits, g.task))
			submits(t, p, nothing)
			ctx := &late{Context: t.Context(), done: make(chan struct{})}
			do := later(func() error {
				_, err := worker.Do(ctx, p, func(context.Context) (int, error) { return 0, errTask })
				return err
			})
			waiting(t, do)
			ctx.over.Store(true)
			g.open()
			require.ErrorIs(t, returned(t, do), context.Canceled)
			require.NoError(t, p.Wait(t.Context()))
			require.Equal(t, worker.Statistics{Done: 3, Failed: 1}, p.Statistics())
			drained(t, p, l)
		})
	}
}
