package worker_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

func TestNewReportsEveryFault(t *testing.T) {
	p, err := worker.New(worker.Options{Workers: -1, Queue: -2})
	require.Nil(t, p)
	require.EqualError(t, err, "worker: Options.Limiter = nil, want a limiter (core.Unlimited() sets no limit)\n"+
		"worker: Options.Workers = -1, want at least 0\n"+
		"worker: Options.Queue = -2, want at least 0")

	_, err = worker.New(worker.Options{Limiter: (*core.ConcurrencyLimiter)(nil)})
	require.EqualError(t, err, "worker: Options.Limiter = nil, want a limiter (core.Unlimited() sets no limit)")
}

func TestZeroPoolRefuses(t *testing.T) {
	var p worker.Pool
	require.ErrorIs(t, p.Submit(t.Context(), nothing), worker.ErrClosed)
	require.ErrorIs(t, p.TrySubmit(nothing), worker.ErrClosed)
	require.NoError(t, p.Wait(t.Context()))
	require.NoError(t, p.Close(t.Context()))
	require.Zero(t, p.Statistics())
	_, err := worker.Do(t.Context(), &p, func(context.Context) (int, error) { return 1, nil })
	require.ErrorIs(t, err, worker.ErrClosed)
	for _, err := range worker.Map(t.Context(), &p, naturals, double) {
		require.ErrorIs(t, err, worker.ErrClosed)
	}
}

func TestBadSubmissionsAreErrorsAtOnce(t *testing.T) {
	for _, queue := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 2)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			done, cancel := context.WithCancel(t.Context())
			cancel()
			g := newGate()
			live := t.Context()
			check := func() {
				require.Error(t, p.Submit(live, nil))
				require.ErrorIs(t, p.SubmitN(done, -1, nothing), core.ErrNegativePermits)
				require.Equal(t, context.Canceled, p.Submit(done, nothing))
				require.ErrorIs(t, p.SubmitN(live, 3, nothing), core.ErrPermitsExceedLimit)
			}
			check() // while permits are free
			submits(t, p, two(g.task)...)
			check() // while none are
			require.Zero(t, l.Statistics().Rejected)
			g.open()
			require.NoError(t, p.Wait(t.Context()))
			require.EqualValues(t, 2, p.Statistics().Done)
			drained(t, p, l)
		})
	}
}

func TestSubmitTellsWhatTheLimiterSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := impatient(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		g := newGate()
		submits(t, p, g.task)
		rejected(t, p, "permits exhausted")
		submit := later(func() error { return p.Submit(t.Context(), nothing) })
		waiting(t, submit)
		rejected(t, p, "all workers busy")
		g.open()
		require.NoError(t, returned(t, submit), "it waits, whatever QueueLimit is")
		require.NoError(t, p.Wait(t.Context()))

		require.NoError(t, l.Close())
		err := p.Submit(t.Context(), nothing)
		require.ErrorIs(t, err, core.ErrClosed)
		require.NotErrorIs(t, err, worker.ErrClosed)
	})
}

func TestQueuedTasksFollowTheRate(t *testing.T) {
	for _, queueLimit := range []int{0, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			l, err := core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: queueLimit,
			})
			require.NoError(t, err)
			p := newPool(t, worker.Options{Limiter: l, Queue: 10})
			start := time.Now()
			var starts []time.Duration
			for range 5 {
				submits(t, p, func(context.Context) error {
					starts = append(starts, time.Since(start))
					return nil
				})
				synctest.Wait()
			}
			require.NoError(t, p.Wait(t.Context()))
			require.Equal(t, []time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second}, starts)
		})
	}
}

func TestHeavierTasksTakeMorePermits(t *testing.T) {
	for _, queue := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			l := impatient(t, 4)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			g := newGate()
			require.NoError(t, p.SubmitN(t.Context(), 3, g.task))
			require.Equal(t, 1, l.Available())
			require.NoError(t, p.SubmitN(t.Context(), 0, nothing), "a probe takes none")
			synctest.Wait()
			require.Equal(t, 1, l.Available())
			if queue > 0 {
				require.NoError(t, p.SubmitN(t.Context(), 2, nothing))
				require.NoError(t, p.SubmitN(t.Context(), 1, nothing), "queued behind")
				require.Equal(t, worker.Statistics{Running: 1, Queued: 2, Done: 1}, p.Statistics())
			}
			g.open()
			require.NoError(t, p.Wait(t.Context()))
			drained(t, p, l)
		})
	}
}

func TestARaisedLimitStartsQueuedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 3})
		g := newGate()
		submits(t, p, append(two(g.task), g.task)...)
		counts(t, p, worker.Statistics{Running: 1, Queued: 2})
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 3, QueueLimit: 9}))
		counts(t, p, worker.Statistics{Running: 3})
		require.NoError(t, p.SubmitN(t.Context(), 3, nothing), "a heavier one is welcome now")
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 2, QueueLimit: 9}))
		g.open()
		require.ErrorIs(t, p.Wait(t.Context()), core.ErrPermitsExceedLimit, "and then is not")
		require.Equal(t, worker.Statistics{Done: 4, Failed: 1}, p.Statistics())
		drained(t, p, l)
	})
}

func TestWaitKeepsSomeErrorsAndCountsTheRest(t *testing.T) {
	p := newPool(t, worker.Options{Limiter: concurrency(t, 1)})
	for range 250 {
		submits(t, p, fails)
	}
	err := p.Wait(t.Context())
	require.ErrorIs(t, err, errTask)
	require.ErrorContains(t, err, "\nworker: 150 more tasks failed")
	require.Len(t, err.(interface{ Unwrap() []error }).Unwrap(), 101)
	require.NoError(t, p.Wait(t.Context()))
}

func TestPanicsAndExitsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		submits(t, p, func(context.Context) error { panic(errTask) })
		err := p.Wait(t.Context())
		var caught *worker.PanicError
		require.ErrorAs(t, err, &caught)
		require.Equal(t, errTask, caught.Value)
		require.ErrorIs(t, err, errTask)
		require.EqualError(t, caught, "worker: task panicked: the task failed")
		require.Contains(t, string(caught.Stack), "TestPanicsAndExitsAreContained")
		require.Equal(t, 1, l.Available())

		submits(t, p, func(context.Context) error { panic("no error") })
		require.ErrorAs(t, p.Wait(t.Context()), &caught)
		require.NoError(t, errors.Unwrap(caught))

		submits(t, p, func(context.Context) error { panic(nil) }) //nolint:govet // on purpose
		require.ErrorAs(t, p.Wait(t.Context()), new(*runtime.PanicNilError))

		submits(t, p, func(context.Context) error { runtime.Goexit(); return nil })
		require.ErrorIs(t, p.Wait(t.Context()), worker.ErrGoexit)
		require.Equal(t, worker.Statistics{Done: 4, Failed: 1, Panicked: 3}, p.Statistics())
		drained(t, p, l)
	})
}

func TestOnPanicIsToldInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		var values []any
		var p *worker.Pool
		p = newPool(t, worker.Options{Limiter: l, OnPanic: func(v any, stack []byte) {
			require.Contains(t, string(stack), "TestOnPanicIsToldInstead")
			require.Equal(t, 1, l.Available(), "the lease is back")
			require.EqualValues(t, len(values)+1, p.Statistics().Panicked, "no lock is held")
			synctest.Wait() // Wait, too, waits for it
			switch values = append(values, v); len(values) {
			case 2:
				panic("in OnPanic")
			case 3:
				runtime.Goexit()
			}
		}})
		boom := func(context.Context) error { panic("boom") }
		submits(t, p, boom)
		require.NoError(t, p.Wait(t.Context()))
		submits(t, p, boom)
		require.EqualError(t, p.Wait(t.Context()), "worker: OnPanic panicked: in OnPanic")
		submits(t, p, boom)
		require.NoError(t, p.Wait(t.Context()))
		submits(t, p, nothing)
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, []any{"boom", "boom", "boom"}, values)
		require.Equal(t, worker.Statistics{Done: 4, Panicked: 3}, p.Statistics())
		drained(t, p, l)
	})
}

func TestWorkersBoundGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: core.Unlimited(), Workers: 3, Queue: 100})
		g := newGate()
		before := runtime.NumGoroutine()
		for range 100 {
			submits(t, p, g.task)
		}
		counts(t, p, worker.Statistics{Running: 3, Queued: 97})
		require.LessOrEqual(t, runtime.NumGoroutine()-before, 3)
		g.open()
		require.NoError(t, p.Wait(t.Context()))
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
				require.EqualError(t, err, "core: rejected 2 permits: queue limit reached (queue is full)")
			}
			g.open()
			require.NoError(t, p.Wait(t.Context()))
			require.NoError(t, p.Close(t.Context()))
			require.ErrorIs(t, p.TrySubmitN(1, nothing), worker.ErrClosed)
			drained(t, p, l)
		})
	}
}
