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

// Done is somebody's own code, and may use the limiter. Asked for by one that waits, it is
// asked for once, also if somebody else waits for it in its place.
func TestWhoWaitsAsksForDoneWithoutALock(t *testing.T) {
	eachOfFour(t, 1, many, func(t *testing.T, l everything) {
		takes(t, l, 1)
		ctx := &asked{Context: t.Context()}
		ctx.first = func() {
			if l.Statistics().Queued == 0 || l.TryAcquire(1).Acquired() {
				t.Error("asked for Done without waiting")
			}
		}
		errs := all(ctx, l, many, 1)
		require.Equal(t, int64(many), ctx.done.Load())
		require.NoError(t, l.Close())
		for range many {
			require.Equal(t, core.ErrClosed, <-errs)
		}
	})
}

// One asks for Done, and while it does, what it shares with all others is closed, they are
// cancelled, and nobody watches any more.
func TestDoneIsClosedWhileOneAsksForIt(t *testing.T) {
	eachOfFour(t, 1, 2*many, func(t *testing.T, l everything) {
		takes(t, l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		errs := all(ctx, l, many, 1)
		late := all(&asked{Context: ctx, first: func() {
			cancel()
			time.Sleep(1) // all others go on as far as they can
			if n := l.Statistics().Queued; n != 1 {
				t.Errorf("%d wait", n)
			}
		}}, l, 1, 1)
		require.Equal(t, context.Canceled, <-late)
		require.Len(t, errs, many)
		require.Zero(t, l.Statistics().Queued)
	})
}

// One asks for Done, and while it does, all are granted, so that nobody waits any more; or
// others do by then. However many came before, nobody watches for one that waits no more:
// at its end the bubble would find the goroutine.
func TestAllAreGrantedWhileOneAsksForDone(t *testing.T) {
	for n := range 2 * many {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 1, many)
			held := takes(t, l, 1)
			ctx := endless{t.Context(), make(chan struct{})}
			acquire := func(ctx context.Context) {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				lease.Release()
			}
			for range n / 2 {
				go acquire(ctx)
				synctest.Wait()
			}
			acquire(&asked{Context: ctx, first: func() {
				held.Release()
				time.Sleep(1)
				if n%2 > 0 {
					go acquire(t.Context())
					time.Sleep(1)
				}
			}})
			synctest.Wait()
			counts(t, l, 1, 1, 0, uint64(2+n/2+n%2), 0)
		})
	}
}

// endless has a Done that is never closed.
type endless struct {
	context.Context
	done chan struct{}
}

func (e endless) Done() <-chan struct{} { return e.done }

// Each call of Done returns another channel, as some contexts of one's own do.
func TestEachDoneIsAnotherChannel(t *testing.T) {
	eachOfFour(t, 1, many, func(t *testing.T, l everything) {
		takes(t, l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		errs := all(forked{ctx}, l, many, 1)
		cancel()
		synctest.Wait()
		require.Len(t, errs, many)
		require.Zero(t, l.Statistics().Queued)
	})
}

type forked struct{ context.Context }

func (f forked) Done() <-chan struct{} {
	c := make(chan struct{})
	context.AfterFunc(f.Context, func() { close(c) })
	return c
}
