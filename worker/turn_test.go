package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/worker"
)

// permitTime runs for 1 ms.
func permitTime(context.Context) error {
	time.Sleep(time.Millisecond)
	return nil
}

// No permit lies idle while a Group waits for one, even if the limiter has no queue: the tasks
// take exactly the time that the permits need for them. The limiter counts a grant for each, and no rejection,
// because no task was turned away.
func TestNoPermitLiesIdle(t *testing.T) {
	const permits, tasks = 4, 2000
	for name, limiter := range map[string]func() (core.Limiter, *core.ConcurrencyLimiter){
		"core's": func() (core.Limiter, *core.ConcurrencyLimiter) {
			l := impatient(t, permits)
			return l, l
		},
		"view": func() (core.Limiter, *core.ConcurrencyLimiter) {
			l := impatient(t, permits)
			return core.WithReason(l, "busy"), l
		},
		"user's": func() (core.Limiter, *core.ConcurrencyLimiter) {
			l := concurrency(t, permits)
			return &odd{ConcurrencyLimiter: l}, l
		},
	} {
		for _, o := range []worker.Options{{}, {Workers: 3}, {Queue: 5}} {
			for _, callers := range []int{1, 10, 50, 500} {
				want := time.Duration(tasks/permits) * time.Millisecond
				if o.Workers > 0 {
					want = time.Duration((tasks+o.Workers-1)/o.Workers) * time.Millisecond
				}
				testkit.Bubble(t, fmt.Sprintf("Group/%s/workers=%d/queue=%d/callers=%d", name, o.Workers, o.Queue, callers), func(t *testing.T) {
					var l *core.ConcurrencyLimiter
					o.Limiter, l = limiter()
					p := newPool(t, o)
					start := time.Now()
					g := p.Group(t.Context())
					all := newPool(t, worker.Options{Limiter: core.Unlimited()}).Group(t.Context())
					for range callers {
						all.Go(func(context.Context) error {
							for range tasks / callers {
								g.Go(permitTime)
							}
							return nil
						})
					}
					require.NoError(t, all.Wait())
					require.NoError(t, g.Wait())
					require.Equal(t, want, time.Since(start))
					require.EqualValues(t, tasks, l.Statistics().Granted)
					require.Zero(t, l.Statistics().Rejected)
					drained(t, p, l)
				})
			}
		}
	}
}

// Tasks start in the order of the calls, whatever the calls are, or in the order of the limiter.
func TestTasksStartInOrder(t *testing.T) {
	for order, want := range map[core.QueueOrder][]int{
		core.OldestFirst: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		core.NewestFirst: {0, 9, 8, 7, 6, 5, 4, 3, 2, 1}, // the limiter is being asked for the first
		core.FairShare:   {0, 1, 5, 2, 6, 3, 7, 4, 8, 9}, // the first five and the last are two flows
	} {
		for name, view := range map[string]func(l core.Limiter) core.Limiter{
			"core's": func(l core.Limiter) core.Limiter { return l },
			"view":   func(l core.Limiter) core.Limiter { return core.WithReason(l, "busy") },
			"chain":  func(l core.Limiter) core.Limiter { return core.Must(core.Chain(core.Unlimited(), l)) },
		} {
			for _, o := range []worker.Options{{}, {Workers: 3}, {Queue: 100}, {Queue: 100, Workers: 1}} {
				testkit.Bubble(t, fmt.Sprintf("%v/%s/workers=%d/queue=%d", order, name, o.Workers, o.Queue), func(t *testing.T) {
					l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueOrder: order}))
					o.Limiter = view(l)
					p := newPool(t, o)
					others := l.TryAcquire(1)
					var started []int
					var calls []<-chan error
					for i := range 10 {
						ctx := of(t.Context(), []string{"first", "last"}[i/5])
						calls = append(calls, later(func() error {
							return startBy(ctx, p, i, func(context.Context) error { started = append(started, i); return nil })
						}))
						synctest.Wait()
					}
					others.Release()
					for _, c := range calls {
						require.NoError(t, returned(t, c))
					}
					require.NoError(t, p.Wait(t.Context()))
					require.Equal(t, want, started)
					drained(t, p, l)
				})
			}
		}
	}
}

// startBy gives the pool a task by one of the calls that do that.
func startBy(ctx context.Context, p *worker.Pool, which int, task worker.Task) (err error) {
	switch which % 5 {
	case 0:
		return p.Submit(ctx, task)
	case 1:
		_, err = worker.Do(ctx, p, func(ctx context.Context) (int, error) { return 0, task(ctx) })
	case 2:
		g := p.Group(ctx)
		g.Go(task)
		return g.Wait()
	case 3:
		g := p.Group(ctx)
		g.GoN(1, task)
		return g.Wait()
	case 4:
		for _, err = range worker.Map(ctx, p, upTo(1), func(ctx context.Context, _ int) (int, error) { return 0, task(ctx) }) {
			if err != nil {
				return err
			}
		}
	}
	return err
}

// Pools that share a limiter without a queue take turns: a busy pool does not keep all permits.
func TestPoolsShareALimiterWithoutAQueue(t *testing.T) {
	for _, queue := range []int{0, 1000} {
		testkit.Bubble(t, fmt.Sprintf("queue=%d", queue), func(t *testing.T) {
			l := impatient(t, 1)
			busy := newPool(t, worker.Options{Limiter: l, Queue: 1000})
			for range 1000 {
				submits(t, busy, permitTime)
			}
			time.Sleep(time.Millisecond / 2)
			other := newPool(t, worker.Options{Limiter: l, Queue: queue})
			start := time.Now()
			for range 10 {
				_, err := worker.Do(t.Context(), other, func(context.Context) (int, error) { return 0, nil })
				require.NoError(t, err)
			}
			require.LessOrEqual(t, time.Since(start), 20*time.Millisecond)
			require.NoError(t, busy.Wait(t.Context()))
			drained(t, busy, l)
			drained(t, other, l)
		})
	}
}
