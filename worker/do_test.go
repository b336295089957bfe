package worker_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
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

func TestDoTellsOnPanicAndItsCaller(t *testing.T) {
	told := 0
	p := newPool(t, worker.Options{Limiter: concurrency(t, 1), OnPanic: func(any, []byte) { told++ }})
	_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { panic("boom") })
	require.ErrorAs(t, err, new(*worker.PanicError))
	require.Equal(t, 1, told)
	require.NoError(t, p.Wait(t.Context()))
}

func TestDoEndsWithItsContext(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"waiting in the limiter":   {},
		"waiting for a worker":     {Workers: 1},
		"queued":                   {Queue: 2},
		"first of the queue":       {Queue: 1},
		"queued and no worker":     {Queue: 2, Workers: 1},
		"waiting for queue's room": {Queue: 1, Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 1)
				o.Limiter = l
				p := newPool(t, o)
				g := newGate()
				submits(t, p, g.task)
				if o.Queue > 1 || o.Queue == 1 && o.Workers == 1 {
					submits(t, p, nothing)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				_, err := worker.Do(ctx, p, func(context.Context) (int, error) { panic("it was cancelled") })
				require.Equal(t, context.DeadlineExceeded, err)
				require.Equal(t, time.Second, time.Since(start))
				synctest.Wait()
				if o.Queue > 0 && o.Queue+o.Workers != 2 {
					require.NoError(t, p.TrySubmit(nothing), "its room is free")
				}
				g.open()
				require.NoError(t, p.Wait(t.Context()))
				s := p.Statistics()
				require.Zero(t, s.Panicked)
				drained(t, p, l)
			})
		})
	}
}

func TestDoCancelsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		ctx, cancel := context.WithCancel(t.Context())
		g := newGate()
		var inner error
		do := later(func() error {
			_, err := worker.Do(ctx, p, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				inner = ctx.Err()
				<-g
				return 1, nil
			})
			return err
		})
		waiting(t, do)
		cancel()
		require.Equal(t, context.Canceled, returned(t, do), "at once")
		require.Equal(t, context.Canceled, inner)
		require.Equal(t, worker.Statistics{Running: 1}, p.Statistics())
		g.open()
		require.NoError(t, p.Wait(t.Context()))
		drained(t, p, l)
	})
}

func TestCloseReachesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 3})
		var cause error
		first := later(func() error {
			_, err := worker.Do(t.Context(), p, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return 0, ctx.Err()
			})
			return err
		})
		waiting(t, first)
		var queued []<-chan error
		for range 2 {
			queued = append(queued, later(func() error {
				_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { return 0, nil })
				return err
			}))
		}
		waiting(t, queued[1])
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Close(done), context.Canceled)
		require.Equal(t, context.Canceled, returned(t, first))
		require.Equal(t, worker.ErrClosed, cause)
		for _, c := range queued {
			require.Equal(t, worker.ErrClosed, returned(t, c))
		}
		require.Equal(t, worker.Statistics{Done: 3, Failed: 3}, p.Statistics())
		drained(t, p, l)
	})
}

func TestDoFromATaskOfTheSamePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: impatient(t, 1)})
		_, err := worker.Do(t.Context(), p, func(ctx context.Context) (int, error) {
			if err := p.TrySubmit(nothing); !errors.Is(err, core.ErrRejected) {
				t.Errorf("TrySubmit in a task: %v", err)
			}
			return 0, nil
		})
		require.NoError(t, err)
	})
}

func TestManyCallsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 100})
		g := newGate()
		submits(t, p, g.task, nothing)
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			for range 98 {
				go worker.Do(ctx, p, func(context.Context) (int, error) { panic("it was cancelled") }) //nolint:errcheck // its end is what is tested
			}
			counts(t, p, worker.Statistics{Running: 1, Queued: 99, Done: p.Statistics().Done, Failed: p.Statistics().Failed})
			cancel()
			synctest.Wait()
			require.Equal(t, 1, p.Statistics().Queued)
		}
		g.open()
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, worker.Statistics{Done: 982, Failed: 980}, p.Statistics())
		drained(t, p, l)
	})
}

// late is a context that has ended a while before its channel says so, as any may seem to
// a goroutine that waits for the processor.
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
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		g := newGate()
		submits(t, p, g.task, nothing)
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
