package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/worker"
)

// odd is a limiter that does as told. It embeds a real one, whose methods it overrides.
type odd struct {
	*core.ConcurrencyLimiter

	try     func(n int) core.Lease
	acquire func(ctx context.Context, n int) (core.Lease, error)
}

func (o *odd) TryAcquire(n int) core.Lease {
	if o.try == nil {
		return o.ConcurrencyLimiter.TryAcquire(n)
	}
	return o.try(n)
}

func (o *odd) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if o.acquire == nil {
		return o.ConcurrencyLimiter.Acquire(ctx, n)
	}
	return o.acquire(ctx, n)
}

// A user's limiter is asked by one Acquire for each task, and its answer is the answer, whatever the
// limiter's RetryAfter says.
func TestTheAnswerOfAUsersLimiter(t *testing.T) {
	for _, queue := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
			l.try = func(int) core.Lease { panic("it is asked by Acquire") }
			l.acquire = func(context.Context, int) (core.Lease, error) {
				asked++
				rejection := core.Reject(core.RetryAfter.With(time.Second))
				return rejection, rejection.Err()
			}
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			var rejection *core.RejectedError
			require.ErrorAs(t, errors.Join(p.Submit(t.Context(), never), p.Wait(t.Context())), &rejection)
			require.Equal(t, time.Second, rejection.RetryAfter)
			_, err := worker.Do(t.Context(), p, func(ctx context.Context) (int, error) { return 0, never(ctx) })
			require.ErrorAs(t, err, &rejection)
			g := p.Group(t.Context())
			g.Go(never)
			require.ErrorAs(t, g.Wait(), &rejection)
			results := 0
			for _, err := range worker.Map(t.Context(), p, upTo(3), double) {
				require.ErrorAs(t, err, &rejection)
				results++
			}
			require.Equal(t, 3, results, "Map continues")
			require.Equal(t, 6, asked)
			drained(t, p, l.ConcurrencyLimiter)
		})
	}
}

// A limiter that panics in a call does so there, and leaves nothing behind. Group.Wait does not wait for that task.
func TestALimiterThatPanicsInACall(t *testing.T) {
	for _, workers := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
			p := newPool(t, worker.Options{Limiter: l, Workers: workers})
			l.try = func(int) core.Lease { panic("in the limiter") }
			l.acquire = func(context.Context, int) (core.Lease, error) { panic("in the limiter") }
			group := p.Group(t.Context())
			for _, call := range []func(){
				func() { _ = p.TrySubmit(nothing) }, func() { _ = p.Submit(t.Context(), nothing) }, func() { group.Go(never) },
			} {
				require.PanicsWithValue(t, "in the limiter", call)
			}
			l.try, l.acquire = nil, nil
			submits(t, p, nothing)
			require.NoError(t, p.Wait(t.Context()))
			group.Go(nothing)
			require.NoError(t, group.Wait())
			require.Equal(t, worker.Statistics{Done: 2}, p.Statistics())
			drained(t, p, l)
		})
	}
}

// A limiter that panics, or exits its goroutine, on a goroutine of the pool fails the task for which it was
// asked.
func TestALimiterThatPanicsInThePool(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("in the limiter") }, "Goexit": runtime.Goexit} {
		for _, o := range []worker.Options{{Queue: 3}, {Queue: 1, Workers: 1}} {
			testkit.Bubble(t, fmt.Sprintf("%s/queue=%d", name, o.Queue), func(t *testing.T) {
				l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
				o.Limiter = l
				o.OnPanic = func(any, []byte) { t.Error("it is not of a task") }
				p := newPool(t, o)
				l.acquire = func(context.Context, int) (core.Lease, error) { end(); return core.Lease{}, nil }
				submits(t, p, never)
				err := p.Wait(t.Context())
				if name == "Goexit" {
					require.ErrorIs(t, err, worker.ErrGoexit)
				} else {
					require.EqualError(t, err, "worker: limiter panicked: in the limiter")
				}
				results := 0
				for _, err := range worker.Map(t.Context(), p, upTo(5), double) {
					require.Error(t, err)
					results++
				}
				require.Equal(t, 5, results)
				l.acquire = nil
				submits(t, p, nothing)
				require.NoError(t, p.Wait(t.Context()))
				require.Equal(t, worker.Statistics{Done: 7, Failed: 6}, p.Statistics())
				drained(t, p, l)
			})
		}
	}
}

// A limiter that panics, or exits its goroutine, in a Map does so in the loop, after the results of the
// inputs before, and leaves nothing behind.
func TestALimiterThatPanicsInMap(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("in the limiter") }, "Goexit": runtime.Goexit} {
		for at := range 4 {
			for _, workers := range []int{0, 1} {
				testkit.Bubble(t, fmt.Sprintf("%s/call=%d/workers=%d", name, at, workers), func(t *testing.T) {
					l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
					p := newPool(t, worker.Options{Limiter: l, Workers: workers})
					left := at
					ask := func() {
						left--
						if left < 0 {
							end()
						}
					}
					l.try = func(n int) core.Lease {
						ask()
						return l.ConcurrencyLimiter.TryAcquire(n)
					}
					l.acquire = func(ctx context.Context, n int) (core.Lease, error) {
						ask()
						return l.ConcurrencyLimiter.Acquire(ctx, n)
					}
					ended := make(chan any, 1)
					results := 0
					go func() {
						defer func() { ended <- recover() }()
						for _, err := range worker.Map(t.Context(), p, upTo(6), double) {
							assert.NoError(t, err)
							results++
						}
						ended <- "the loop ended"
					}()
					want := any("in the limiter")
					if name == "Goexit" {
						want = nil
					}
					require.Equal(t, want, <-ended)
					require.LessOrEqual(t, results, at)
					l.try, l.acquire = nil, nil
					submits(t, p, nothing)
					require.NoError(t, p.Wait(t.Context()))
					drained(t, p, l)
				})
			}
		}
	}
}
