package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// A deadline at the very instant of the permits is not too soon.
func TestADeadlineThatIsJustInTime(t *testing.T) {
	eachOfFour(t, 1, 3, func(t *testing.T, l everything) {
		if holds(l) {
			return // it is not known when its permits come
		}
		takes(t, l, 1)
		acquiresWithin(t, l, 1, time.Second-1).rejected(t, "deadline too soon", time.Second)
		acquiresWithin(t, l, 1, time.Second).canceled(t) // so it waited
		a := acquiresWithin(t, l, 1, time.Second+1)
		time.Sleep(time.Second)
		a.granted(t)
	})
}

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
func TestARequestThatDoesNotWaitAsksForNoDone(t *testing.T) {
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
		require.NoError(t, asks(0), "granted while another request waits")
		require.ErrorIs(t, asks(1), core.ErrRejected, "the queue is full")
		waiting.canceled(t)
		require.NoError(t, asks(1))
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, asks(1))
		require.Zero(t, ctx.done.Load())
	})
}

var errOwn = errors.New("the client went home")

// A context's own error comes back unchanged, whichever way the context ends and whatever the limiter is.
func TestAContextsOwnErrorComesBackUnchanged(t *testing.T) {
	for _, own := range []error{errOwn, &core.RejectedError{Reason: "by the context"}, errors.Join(context.Canceled, errOwn)} {
		for kind, wrap := range map[string]func(t *testing.T, l everything) core.Limiter{
			"itself":   func(_ *testing.T, l everything) core.Limiter { return l },
			"chain":    func(t *testing.T, l everything) core.Limiter { return chain(t, concurrency(t, 9, 0), l) },
			"chains":   func(t *testing.T, l everything) core.Limiter { return chain(t, chain(t, l)) },
			"reason":   func(_ *testing.T, l everything) core.Limiter { return core.WithReason(l, "full") },
			"stranger": func(t *testing.T, l everything) core.Limiter { return chain(t, &stranger{Limiter: l}) },
		} {
			eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
				l.TryAcquire(5)
				for name, end := range map[string]func() (context.Context, context.CancelFunc){
					"canceled": func() (context.Context, context.CancelFunc) {
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(time.Nanosecond, cancel)
						return ctx, cancel
					},
					"expired": func() (context.Context, context.CancelFunc) {
						// Without the deadline, which would be too soon to wait.
						ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
						return noDeadline{ctx}, cancel
					},
				} {
					ctx, cancel := end()
					lease, err := wrap(t, l).Acquire(testkit.OwnError{Context: ctx, Own: own}, 5)
					cancel()
					require.Equal(t, own, err, "%s, %s", kind, name)
					require.Equal(t, own, lease.Err(), "%s, %s", kind, name)
					_, err = wrap(t, l).Acquire(testkit.OwnError{Context: ctx, Own: own}, 5)
					require.Equal(t, own, err, "%s, %s, before", kind, name)
				}
			})
		}
	}
}

type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// A context whose Done panics, or ends the goroutine, takes its waiter out of the queue.
func TestAContextWhoseDoneFailsLeavesNothingBehind(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		lease := takes(t, l, 5)
		for name, outer := range map[string]core.Limiter{"itself": l, "chain": chain(t, l)} {
			ctx := &asked{Context: t.Context(), first: func() { panic("Done") }}
			require.PanicsWithValue(t, "Done", func() { _, _ = outer.Acquire(ctx, 5) }, name)
			require.Zero(t, l.Statistics().Queued, name)

			// Granted before it fails: the grant is returned.
			ctx.first = func() {
				lease.Refund()
				panic("Done")
			}
			require.PanicsWithValue(t, "Done", func() { _, _ = outer.Acquire(ctx, 5) }, name)
			available(t, l, 5)
			lease = takes(t, l, 5)
		}
	})
}
