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

// hears is a task that runs until its context ends, and returns why it did.
func hears(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestTheFirstErrorCancelsTheRest(t *testing.T) {
	for name, o := range map[string]worker.Options{"unqueued": {}, "queued": {Queue: 3}, "worker": {Workers: 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 2)
				o.Limiter, o.CancelOnError = l, true
				p := newPool(t, o)
				g := newGate()
				submits(t, p, hears)
				submits(t, p, func(context.Context) error { <-g; return errTask })
				for range o.Queue {
					submits(t, p, func(context.Context) error { panic("it was cancelled") })
				}
				blocked := later(func() error {
					return p.Submit(t.Context(), func(context.Context) error { panic("it was cancelled") })
				})
				do := later(func() error {
					_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { panic("it was cancelled") })
					return err
				})
				waiting(t, blocked)
				g.open()
				require.Equal(t, errTask, returned(t, blocked), "a Submit that waits")
				require.ErrorIs(t, returned(t, do), errTask)
				require.Equal(t, errTask, p.Submit(t.Context(), nothing), "new ones are refused with it")
				require.Equal(t, errTask, p.TrySubmit(nothing))
				_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { return 1, nil })
				require.Equal(t, errTask, err)
				for _, err := range worker.Map(t.Context(), p, naturals, double) {
					require.Equal(t, errTask, err)
				}
				done := uint64(2 + o.Queue)
				require.Equal(t, worker.Statistics{Done: done, Failed: done}, p.Statistics())

				err = p.Wait(t.Context())
				require.ErrorIs(t, err, errTask)
				require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 2, "of those that ran")
				require.NoError(t, p.Wait(t.Context()), "once")
				submits(t, p, func(ctx context.Context) error { return ctx.Err() })
				require.NoError(t, p.Wait(t.Context()), "and then the pool is as new")
				drained(t, p, l)
			})
		})
	}
}

func TestAPanicCancelsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p := newPool(t, worker.Options{
			Limiter: concurrency(t, 2), CancelOnError: true, OnPanic: func(any, []byte) { told++ },
		})
		submits(t, p, hears)
		submits(t, p, func(context.Context) error { panic(errTask) })
		err := p.Wait(t.Context())
		require.ErrorAs(t, err, new(*worker.PanicError), "though OnPanic was told, as new tasks were refused with it")
		require.Equal(t, 1, told)
		require.Equal(t, worker.Statistics{Done: 2, Failed: 1, Panicked: 1}, p.Statistics())
		submits(t, p, nothing)
		require.NoError(t, p.Wait(t.Context()))
	})
}

func TestARefusalCancelsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2)
		p := newPool(t, worker.Options{Limiter: l, CancelOnError: true, Queue: 3})
		submits(t, p, hears)
		require.NoError(t, p.SubmitN(t.Context(), 2, nothing))
		submits(t, p, nothing)
		synctest.Wait()
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
		require.ErrorIs(t, p.Wait(t.Context()), core.ErrPermitsExceedLimit)
		require.Equal(t, worker.Statistics{Done: 3, Failed: 3}, p.Statistics())
		drained(t, p, l)
	})
}

func TestTheErrorOfADoCancelsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2)
		p := newPool(t, worker.Options{Limiter: l, CancelOnError: true})
		other := later(func() error {
			_, err := worker.Do(t.Context(), p, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				require.Equal(t, errTask, context.Cause(ctx))
				return 0, ctx.Err()
			})
			return err
		})
		waiting(t, other)
		_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { return 0, errTask })
		require.Equal(t, errTask, err)
		err = returned(t, other)
		require.ErrorIs(t, err, errTask)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, errTask, p.TrySubmit(nothing))
		require.ErrorIs(t, p.Wait(t.Context()), errTask)
		submits(t, p, nothing)

		// A caller that gives up, and a loop that ends, cancel nobody else.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = worker.Do(ctx, p, func(ctx context.Context) (int, error) { return 0, hears(ctx) })
		require.Equal(t, context.DeadlineExceeded, err)
		for _, err := range worker.Map(t.Context(), p, naturals, func(ctx context.Context, i int) (int, error) {
			if i > 0 {
				return 0, hears(ctx)
			}
			return 0, nil
		}) {
			require.NoError(t, err)
			break
		}
		synctest.Wait()
		require.NoError(t, p.TrySubmit(nothing))
		require.NoError(t, p.Wait(t.Context()))
		drained(t, p, l)
	})
}

func TestMapEndsWithTheErrorThatCancelledIt(t *testing.T) {
	for _, queue := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 3)
			p := newPool(t, worker.Options{Limiter: l, CancelOnError: true, Queue: queue})
			var errs []error
			for v, err := range worker.Map(t.Context(), p, naturals, func(ctx context.Context, i int) (int, error) {
				switch {
				case i < 3:
					return i, nil
				case i == 5:
					time.Sleep(time.Second)
					return 0, errTask
				}
				return 0, hears(ctx)
			}) {
				if err == nil {
					require.Len(t, errs, v)
				}
				errs = append(errs, err)
			}
			require.Equal(t, []error{nil, nil, nil, errTask}, errs)
			require.ErrorIs(t, p.Wait(t.Context()), errTask)
			drained(t, p, l)
		})
	}
}

// A Wait that is given up leaves the pool as it is; Close comes before the error.
func TestCancelledAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, CancelOnError: true})
		submits(t, p, fails)
		synctest.Wait()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, p.Wait(done))
		require.Equal(t, errTask, p.Submit(t.Context(), nothing))
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, worker.ErrClosed, p.Submit(t.Context(), nothing))
		require.ErrorIs(t, p.Wait(t.Context()), errTask)
		require.Equal(t, worker.ErrClosed, p.Submit(t.Context(), nothing))
	})
}

func TestTrySubmitN(t *testing.T) {
	for _, queue := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 3)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			g := newGate()
			require.NoError(t, p.TrySubmitN(2, g.task))
			require.Equal(t, 1, l.Available())
			require.ErrorIs(t, p.TrySubmitN(-1, nothing), core.ErrNegativePermits)
			require.ErrorIs(t, p.TrySubmitN(4, nothing), core.ErrPermitsExceedLimit)
			require.Error(t, p.TrySubmitN(1, nil))
			for range queue {
				require.NoError(t, p.TrySubmitN(2, nothing))
			}
			err := p.TrySubmitN(2, nothing)
			var rejection *core.RejectedError
			require.ErrorAs(t, err, &rejection)
			require.Equal(t, 2, rejection.Permits)
			if queue > 0 {
				require.EqualError(t, err, "core: rejected: queue limit reached (queue is full)")
			}
			g.open()
			require.NoError(t, p.Wait(t.Context()))
			require.NoError(t, p.Close(t.Context()))
			require.ErrorIs(t, p.TrySubmitN(1, nothing), worker.ErrClosed)
			drained(t, p, l)
		})
	}
}
