package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Every task is run exactly once, however it ends; no more run at a time than the limiter
// admits; in the end every lease is back and the numbers add up.
func TestStressEachTaskOnce(t *testing.T) {
	for _, o := range []worker.Options{
		{}, {Workers: 3}, {Queue: 1}, {Queue: 64}, {Queue: 5, Workers: 2}, {Workers: 1},
	} {
		for _, permits := range []int{1, 4} {
			for _, users := range []bool{false, true} {
				name := fmt.Sprintf("workers=%d,queue=%d,permits=%d,users=%t", o.Workers, o.Queue, permits, users)
				t.Run(name, func(t *testing.T) { stressOnce(t, o, permits, users) })
			}
		}
	}
}

func stressOnce(t *testing.T, o worker.Options, permits int, users bool) {
	t.Helper()
	const submitters, each = 4, 500
	limiter := concurrency(t, permits)
	o.Limiter = limiter
	if users {
		o.Limiter = &odd{ConcurrencyLimiter: limiter}
	}
	p := newPool(t, o)
	var runs [submitters * each]atomic.Int32
	var now, most, refusedOf atomic.Int64
	task := func(i int) worker.Task {
		return func(context.Context) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			runs[i].Add(1)
			switch i % 10 {
			case 1:
				runtime.Gosched()
			case 2:
				return errTask
			case 3:
				if i%3 == 0 {
					panic(i)
				}
			case 4:
				if i%3 == 0 {
					runtime.Goexit()
				}
			}
			return nil
		}
	}
	var submitting sync.WaitGroup
	for s := range submitters {
		submitting.Go(func() {
			for k := range each {
				i := s*each + k
				switch err := p.TrySubmit(task(i)); {
				case err == nil:
				case errors.Is(err, core.ErrRejected):
					refusedOf.Add(1)
					assert.NoError(t, p.SubmitN(t.Context(), 1+i%permits, task(i)))
				default:
					assert.NoError(t, err)
				}
			}
		})
	}
	submitting.Wait()
	err := p.Wait(t.Context())
	require.ErrorIs(t, err, errTask)
	require.ErrorIs(t, err, worker.ErrGoexit)
	for i := range runs {
		require.EqualValues(t, 1, runs[i].Load(), "task %d", i)
	}
	require.LessOrEqual(t, most.Load(), int64(permits))
	s := p.Statistics()
	require.EqualValues(t, len(runs), s.Done)
	var failed, panicked uint64
	for i := range runs {
		switch {
		case i%10 == 2, i%10 == 4 && i%3 == 0:
			failed++
		case i%10 == 3 && i%3 == 0:
			panicked++
		}
	}
	require.Equal(t, failed, s.Failed)
	require.Equal(t, panicked, s.Panicked)
	require.NoError(t, p.Wait(t.Context()), "errors are returned once")
	drained(t, p, limiter)
}

// While callers of all kinds come, give up, and are cut off by Close, every task that was
// accepted ends, the numbers add up at every look, and nothing is left.
func TestStressCloseAmidCallers(t *testing.T) {
	for round := range 120 {
		limiter := concurrency(t, 1+round%3)
		if round%5 == 4 {
			limiter = impatient(t, 2)
		}
		o := worker.Options{Limiter: limiter, Queue: round % 4, Workers: round % 7 / 2}
		if round >= 60 {
			o.Limiter = &odd{ConcurrencyLimiter: limiter}
		}
		p := newPool(t, o)
		var accepted, ran atomic.Uint64
		var running atomic.Int64
		most := int64(limiter.Options().PermitLimit)
		task := func(context.Context) error {
			ran.Add(1)
			assert.LessOrEqual(t, running.Add(1), most)
			runtime.Gosched()
			running.Add(-1)
			return nil
		}
		var callers sync.WaitGroup
		for caller := range 6 {
			callers.Go(func() {
				for i := 0; ; i++ {
					ctx, cancel := context.WithCancel(t.Context())
					if i%3 == 0 {
						go cancel()
					}
					err := submitSomehow(ctx, p, caller, task, &accepted)
					cancel()
					if errors.Is(err, worker.ErrClosed) {
						return
					}
					runtime.Gosched() // on one CPU a rejected caller would spin for its time slice
				}
			})
		}
		for range 50 {
			s := p.Statistics()
			assert.LessOrEqual(t, s.Failed+s.Panicked, s.Done)
			// A lease is released before its task is counted as ended, so Running may exceed the limit
			// for an instant; the tasks themselves never do.
			assert.LessOrEqual(t, s.Queued, round%4+1, "one may be in the limiter's queue")
			runtime.Gosched()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := p.Close(ctx); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		callers.Wait()
		_ = p.Wait(t.Context()) // ErrClosed of those that Close dropped, if any
		s := p.Statistics()
		require.LessOrEqual(t, accepted.Load(), s.Done)
		require.Equal(t, s.Done-s.Failed, ran.Load(), "each task ran, or failed without")
		require.Zero(t, s.Panicked)
		drained(t, p, limiter)
	}
}

// submitSomehow makes one call, of a kind that goes with the caller.
func submitSomehow(ctx context.Context, p *worker.Pool, caller int, task worker.Task, accepted *atomic.Uint64) error {
	do := func(ctx context.Context) (int, error) { return 0, task(ctx) }
	var err error
	switch caller {
	case 0, 1:
		err = p.Submit(ctx, task)
	case 2:
		err = p.TrySubmit(task)
	case 3, 4:
		_, err = worker.Do(ctx, p, do)
	default:
		for _, err = range worker.Map(ctx, p, upTo(10), func(ctx context.Context, _ int) (int, error) { return do(ctx) }) {
			if err != nil {
				return err
			}
			accepted.Add(1)
		}
		return nil
	}
	if err == nil {
		accepted.Add(1)
	}
	return err
}
