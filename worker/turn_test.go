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

// No permit lies idle while a Group or a Map waits for one, even if the limiter has no queue: the tasks
// take exactly the time that the permits need for them.
func TestNoPermitLiesIdle(t *testing.T) {
	const permits, tasks = 4, 2000
	for name, wrap := range map[string]func(*core.ConcurrencyLimiter) core.Limiter{
		"core's": func(l *core.ConcurrencyLimiter) core.Limiter { return l },
		"user's": func(l *core.ConcurrencyLimiter) core.Limiter { return &odd{ConcurrencyLimiter: l} },
	} {
		for _, o := range []worker.Options{{}, {Workers: 3}, {Queue: 5}} {
			for _, callers := range []int{1, 10, 50, 500} {
				want := time.Duration(tasks/permits) * time.Millisecond
				if o.Workers > 0 {
					want = time.Duration((tasks+o.Workers-1)/o.Workers) * time.Millisecond
				}
				testkit.Bubble(t, fmt.Sprintf("Group/%s/workers=%d/queue=%d/callers=%d", name, o.Workers, o.Queue, callers), func(t *testing.T) {
					l := impatient(t, permits)
					o.Limiter = wrap(l)
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
					drained(t, p, l)
				})
			}
			testkit.Bubble(t, fmt.Sprintf("Map/%s/workers=%d/queue=%d", name, o.Workers, o.Queue), func(t *testing.T) {
				l := impatient(t, permits)
				o.Limiter = wrap(l)
				p := newPool(t, o)
				start := time.Now()
				all := newPool(t, worker.Options{Limiter: core.Unlimited()}).Group(t.Context())
				for range 10 {
					all.Go(func(ctx context.Context) error {
						for _, err := range worker.Map(ctx, p, upTo(60), func(ctx context.Context, i int) (int, error) {
							return i, permitTime(ctx)
						}) {
							if err != nil {
								return err
							}
						}
						return nil
					})
				}
				require.NoError(t, all.Wait())
				require.Equal(t, 600*time.Millisecond/time.Duration(max(o.Workers, permits*(1-min(o.Workers, 1)))), time.Since(start))
				drained(t, p, l)
			})
		}
	}
}

// A heavier task starts at the instant at which its permits are free, even while some are free before.
func TestAHeavierTaskStartsWhenItsPermitsAreFree(t *testing.T) {
	for _, queue := range []int{0, 2} {
		testkit.Bubble(t, fmt.Sprintf("queue=%d", queue), func(t *testing.T) {
			l := impatient(t, 4)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			g := p.Group(t.Context())
			start := time.Now()
			var started []time.Duration
			for _, d := range []time.Duration{5 * time.Millisecond, 777 * time.Millisecond} {
				g.Go(func(context.Context) error { time.Sleep(d); return nil })
			}
			for range 2 {
				g.GoN(4, func(context.Context) error {
					started = append(started, time.Since(start))
					time.Sleep(11 * time.Millisecond)
					return nil
				})
			}
			require.NoError(t, g.Wait())
			require.Equal(t, []time.Duration{777 * time.Millisecond, 788 * time.Millisecond}, started)
			drained(t, p, l)
		})
	}
}

// Tasks of several callers of Go start in the order of the calls.
func TestGoIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := impatient(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		g := p.Group(t.Context())
		first := newGate()
		g.Go(first.task)
		var order []int
		var calls []<-chan error
		for i := range 10 {
			calls = append(calls, later(func() error {
				g.Go(func(context.Context) error { order = append(order, i); return nil })
				return nil
			}))
			synctest.Wait()
		}
		first.open()
		for _, c := range calls {
			require.NoError(t, returned(t, c))
		}
		require.NoError(t, g.Wait())
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
		drained(t, p, l)
	})
}

// A call of Go that gives up while others are ahead of it, or behind it, takes no permit and holds up no other.
func TestGoThatGivesUpItsTurn(t *testing.T) {
	for which := range 3 {
		synctest.Test(t, func(t *testing.T) {
			l := impatient(t, 1)
			p := newPool(t, worker.Options{Limiter: l})
			held := newGate()
			submits(t, p, held.task)
			var cancels []context.CancelFunc
			var groups []*worker.Group
			var calls []<-chan error
			ran := 0
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				t.Cleanup(cancel)
				g := p.Group(ctx)
				cancels, groups = append(cancels, cancel), append(groups, g)
				calls = append(calls, later(func() error {
					g.Go(func(context.Context) error { ran++; return nil })
					return g.Wait()
				}))
				synctest.Wait()
			}
			cancels[which]()
			require.Equal(t, context.Canceled, returned(t, calls[which]))
			held.open()
			for i := range groups {
				if i != which {
					require.NoError(t, returned(t, calls[i]))
				}
			}
			require.Equal(t, 2, ran)
			drained(t, p, l)
		})
	}
}

// Close ends the calls of Go that wait for others, as it ends the one that waits for the limiter.
func TestCloseEndsGoThatWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := impatient(t, 1)
		p := newPool(t, worker.Options{Limiter: l})
		others := l.TryAcquire(1)
		var calls []<-chan error
		for range 3 {
			calls = append(calls, later(func() error {
				g := p.Group(t.Context())
				g.Go(never)
				return g.Wait()
			}))
			synctest.Wait()
		}
		require.NoError(t, p.Close(t.Context()))
		for _, c := range calls {
			require.Equal(t, worker.ErrClosed, returned(t, c))
		}
		others.Release()
		drained(t, p, l)
	})
}

// A task starts at the very instant at which somebody else gives a permit back, although the limiter has no
// queue: nobody asks at intervals.
func TestATaskStartsWhenOthersGiveBack(t *testing.T) {
	for _, queue := range []int{0, 2} {
		testkit.Bubble(t, fmt.Sprintf("queue=%d", queue), func(t *testing.T) {
			l := impatient(t, 1)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			time.AfterFunc(12345678*time.Microsecond, l.TryAcquire(1).Release)
			start := time.Now()
			var started time.Duration
			g := p.Group(t.Context())
			g.Go(func(context.Context) error { started = time.Since(start); return nil })
			require.NoError(t, g.Wait())
			require.Equal(t, 12345678*time.Microsecond, started)
			require.LessOrEqual(t, l.Statistics().Rejected, uint64(2))
			drained(t, p, l)
		})
	}
}

// Close ends a call of Go that waits for the time at which a rate limiter without a queue has permits.
func TestCloseEndsGoThatWaitsForTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.Every(time.Hour, 1)
		o.QueueLimit = 0
		l := core.Must(core.NewTokenBucket(o))
		p := newPool(t, worker.Options{Limiter: l})
		submits(t, p, nothing)
		g := p.Group(t.Context())
		waits := later(func() error { g.Go(never); return g.Wait() })
		waiting(t, waits)
		require.NoError(t, p.Close(t.Context()))
		require.Equal(t, worker.ErrClosed, returned(t, waits))
	})
}
