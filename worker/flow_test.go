package worker_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// fairly returns a limiter of so many permits whose waiters are served by flow.
func fairly(tb testing.TB, permits int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: permits, QueueLimit: math.MaxInt, QueueOrder: core.FairShare,
	}))
}

func of(ctx context.Context, key string) context.Context {
	return core.WithFlow(ctx, core.Flow{Key: key})
}

// The pool's queue takes tasks by the flow of the context that they were given with, through whichever
// call they came. The task that already waits for its lease keeps its turn.
func TestTasksTakeTurnsByFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: fairly(t, 1), Queue: 100})
		g := newGate()
		submits(t, p, g.task)
		var order []string
		note := func(s string) worker.Task {
			return func(context.Context) error { order = append(order, s); return nil } // one at a time
		}
		for _, s := range []string{"a1", "a2", "a3", "a4"} {
			require.NoError(t, p.Submit(of(t.Context(), "a"), note(s)))
			synctest.Wait()
		}
		group := p.Group(of(t.Context(), "b"))
		group.Go(note("b1"))
		group.Go(note("b2"))
		go func() {
			_, _ = worker.Do(of(t.Context(), "c"), p, func(ctx context.Context) (int, error) { return 0, note("c1")(ctx) })
		}()
		synctest.Wait()
		require.NoError(t, p.Submit(core.WithFlow(t.Context(), core.Flow{Key: "d", Priority: 1}), note("d1")))
		counts(t, p, worker.Statistics{Running: 1, Queued: 8})
		g.open()
		require.NoError(t, group.Wait())
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, []string{"a1", "d1", "a2", "b1", "c1", "a3", "b2", "a4"}, order)
	})
}

// The flow of tasks that leave the queue is not charged for them.
func TestTasksLeaveTheQueueByFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: fairly(t, 1), Queue: 100})
		g := newGate()
		submits(t, p, g.task, nothing) // the second waits for its lease
		synctest.Wait()
		ctx, cancel := context.WithCancel(of(t.Context(), "a"))
		group := p.Group(ctx)
		group.Go(never)
		group.Go(never)
		var order []string
		for _, s := range []string{"a1", "b1", "a2", "b2"} {
			require.NoError(t, p.Submit(of(t.Context(), s[:1]), func(context.Context) error { order = append(order, s); return nil }))
		}
		counts(t, p, worker.Statistics{Running: 1, Queued: 7})
		cancel()
		require.ErrorIs(t, group.Wait(), context.Canceled)
		counts(t, p, worker.Statistics{Running: 1, Queued: 5, Done: 2, Failed: 2})
		g.open()
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, []string{"a1", "b1", "a2", "b2"}, order)
	})
}

// Tasks that come after the Update wait in the new order, behind those that came before it, also in a pool whose
// queue is never empty.
func TestTheOrderIsThatOfTheTasksTime(t *testing.T) {
	for _, queue := range []int{0, 100} {
		for first, want := range map[core.QueueOrder][]string{
			core.OldestFirst: {"leads", "low", "high", "urgent", "later"},
			core.FairShare:   {"leads", "high", "low", "later", "urgent"},
		} {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 1)
				o := l.Options()
				o.QueueOrder = first
				require.NoError(t, l.Update(o))
				p := newPool(t, worker.Options{Limiter: l, Queue: queue})
				g := newGate()
				submits(t, p, g.task)
				var order []string
				submit := func(key string, priority int) {
					ctx := core.WithFlow(t.Context(), core.Flow{Key: key, Priority: priority})
					go func() {
						assert.NoError(t, p.Submit(ctx, func(context.Context) error { order = append(order, key); return nil }))
					}()
					synctest.Wait()
				}
				submit("leads", 0)
				submit("low", 0)
				submit("high", 1)
				o.QueueOrder = core.FairShare - first
				require.NoError(t, l.Update(o))
				submit("later", 2)
				submit("urgent", 3)
				g.open()
				synctest.Wait()
				require.NoError(t, p.Close(t.Context()))
				require.Equal(t, want, order)
			})
		}
	}
}

// A worker waits in the limiter as its task's flow: pools that share a limiter share by flow.
func TestTheLeaderAsksAsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, 1)
		lease := l.TryAcquire(1)
		var order []string
		pools := []*worker.Pool{newPool(t, worker.Options{Limiter: l, Queue: 9}), newPool(t, worker.Options{Limiter: l})}
		ask := func(p *worker.Pool, f core.Flow) {
			go func() {
				ctx := core.WithFlow(t.Context(), f)
				if err := p.Submit(ctx, func(context.Context) error { order = append(order, f.Key); return nil }); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		ask(pools[0], core.Flow{Key: "low", Priority: -1})
		ask(pools[1], core.Flow{Key: "plain"})
		lease.Release()
		synctest.Wait()
		for _, p := range slices.Backward(pools) {
			require.NoError(t, p.Wait(t.Context()))
			require.NoError(t, p.Close(t.Context()))
		}
		require.Equal(t, []string{"plain", "low"}, order)
	})
}

// ordered is a limiter of a user's whose QueueOrder calls a function.
type ordered struct {
	odd

	asked func()
}

func (o *ordered) QueueOrder() core.QueueOrder {
	o.asked()
	return core.FairShare
}

// A QueueOrder that uses the pool would deadlock if the pool called it with its mutex held.
func TestAQueueOrderThatUsesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ordered{odd: odd{ConcurrencyLimiter: concurrency(t, 1)}}
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		l.asked = func() { _ = p.Statistics() }
		g := newGate()
		submits(t, p, g.task)
		submits(t, p, two(nothing)...)
		blocked := later(func() error { return p.Submit(t.Context(), nothing) })
		waiting(t, blocked)
		g.open()
		require.NoError(t, returned(t, blocked))
		require.NoError(t, p.Wait(t.Context()))
		drained(t, p, l)
	})
}

// A group may end, and Wait take its tasks back, while a Go looks at the limiter: Wait does not wait for its task.
func TestAGroupThatEndsWithinAGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ordered{odd: odd{ConcurrencyLimiter: concurrency(t, 1)}}
		p := newPool(t, worker.Options{Limiter: l, Queue: 2})
		held := l.ConcurrencyLimiter.TryAcquire(1)
		ctx, cancel := context.WithCancel(t.Context())
		g := p.Group(ctx)
		var wait <-chan error
		l.asked = func() {
			cancel()
			wait = later(g.Wait)
			waiting(t, wait)
		}
		require.False(t, g.Go(never))
		require.ErrorIs(t, returned(t, wait), context.Canceled)
		held.Release()
		drained(t, p, l)
	})
}

// A flow is not charged for a call that gets nothing because its context has ended, even if that call has not noticed.
func TestACallThatHasEndedIsNotCharged(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the call does not notice
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: fairly(t, 1), Workers: 1})
		g := newGate()
		ctx, cancel := context.WithCancel(of(t.Context(), "a"))
		submits(t, p, func(ctx context.Context) error { _ = g.task(ctx); cancel(); return nil })
		var order []string
		submit := func(ctx context.Context, name string) {
			go func() {
				_ = p.Submit(ctx, func(context.Context) error { order = append(order, name); return nil })
			}()
			synctest.Wait()
		}
		submit(ctx, "canceled")
		submit(of(t.Context(), "a"), "a1")
		submit(of(t.Context(), "b"), "b1")
		submit(of(t.Context(), "a"), "a2")
		submit(of(t.Context(), "b"), "b2")
		g.open()
		synctest.Wait()
		require.Equal(t, []string{"a1", "b1", "a2", "b2"}, order)
		require.NoError(t, p.Close(t.Context()))
	})
}
