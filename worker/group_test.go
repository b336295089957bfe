package worker_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/worker"
)

// never is a task that must not run.
func never(context.Context) error { panic("it was canceled") }

func TestGroupRunsItsTasks(t *testing.T) {
	for _, o := range []worker.Options{{}, {Queue: 3}, {Workers: 2}, {Queue: 1, Workers: 1}} {
		for _, limit := range []func(testing.TB, int) *core.ConcurrencyLimiter{concurrency, impatient} {
			synctest.Test(t, func(t *testing.T) {
				l := limit(t, 2)
				o.Limiter = l
				p := newPool(t, o)
				g := p.Group(context.WithValue(t.Context(), key{}, 42))
				var ran, now, most atomic.Int32
				var kept context.Context
				for i := range 10 {
					g.GoN(i%2, func(ctx context.Context) error {
						most.Store(max(most.Load(), now.Add(int32(i%2))))
						time.Sleep(time.Second)
						now.Add(-int32(i % 2))
						ran.Add(1)
						if i == 0 {
							kept = ctx //nolint:fatcontext // it is looked at later
						}
						assert.Equal(t, 42, ctx.Value(key{}), "the context is derived from the caller's")
						return ctx.Err()
					})
				}
				require.NoError(t, g.Wait())
				require.EqualValues(t, 10, ran.Load())
				require.LessOrEqual(t, most.Load(), int32(2))
				require.Equal(t, context.Canceled, kept.Err(), "it ends when Wait returns")
				require.EqualValues(t, 10, p.Statistics().Done)
				require.NoError(t, g.Wait(), "again")
				drained(t, p, l)
			})
		}
	}
}

// A group ends with its first error, its context, or its pool: it waits for its tasks that run, runs no other, and leaves
// nothing behind, though the pool is busy with others.
func TestGroupEnds(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"unqueued": {}, "queued": {Queue: 3}, "worker": {Workers: 3}, "queued, worker": {Queue: 3, Workers: 3},
	} {
		for ending, fail := range map[string]func(){
			"error": func() {}, "panic": func() { panic(errTask) }, "exit": runtime.Goexit, "parent": nil, "close": nil,
		} {
			testkit.Bubble(t, name+", "+ending, func(t *testing.T) {
				l := concurrency(t, 3)
				o.Limiter = l
				p := newPool(t, o)
				others := newGate()
				submits(t, p, others.task)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				g := p.Group(ctx)
				start := time.Now()
				var cause error
				g.Go(func(ctx context.Context) error {
					cause = hears(ctx)
					time.Sleep(time.Second)
					return ctx.Err()
				})
				open := newGate()
				g.Go(func(ctx context.Context) error {
					select {
					case <-open:
						fail()
						return errTask
					case <-ctx.Done():
						return nil // the group's error is that of the Go that waits
					}
				})
				for range o.Queue {
					g.Go(never)
				}
				blocked := later(func() error { g.Go(never); return nil })
				waiting(t, blocked)
				switch ending {
				case "parent":
					cancel()
				case "close":
					closesNow(t, p)
				default:
					open.open()
				}
				require.NoError(t, returned(t, blocked))
				g.Go(never)

				err := g.Wait()
				require.Equal(t, time.Second, time.Since(start))
				require.EqualValues(t, 2+o.Queue, p.Statistics().Done, "those that were taken")
				switch ending {
				case "error":
					require.Equal(t, errTask, err, "unchanged")
				case "panic":
					require.ErrorAs(t, err, new(*worker.PanicError))
					require.ErrorIs(t, err, errTask)
				case "exit":
					require.Equal(t, worker.ErrGoexit, err)
				case "parent":
					require.Equal(t, context.Canceled, err)
				case "close":
					require.Equal(t, worker.ErrClosed, err)
					late := p.Group(t.Context())
					late.Go(never)
					require.Equal(t, worker.ErrClosed, late.Wait())
				}
				require.Equal(t, err, cause)
				if ending != "close" {
					submits(t, p, nothing) // the pool can still be used
				}
				others.open()
				require.NoError(t, p.Wait(t.Context()), "the errors are the group's")
				drained(t, p, l)
			})
		}
	}
	late := new(worker.Pool).Group(t.Context())
	late.Go(never)
	require.Equal(t, worker.ErrClosed, late.Wait())
}

func TestGroupUsedByATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 3)
		p := newPool(t, worker.Options{Limiter: l})
		g := p.Group(t.Context())
		ran := 0
		g.Go(func(ctx context.Context) error {
			g.Go(func(context.Context) error { ran++; return nil })
			inner := p.Group(ctx)
			inner.Go(func(context.Context) error { return errTask })
			return inner.Wait()
		})
		require.Equal(t, errTask, g.Wait())
		require.Equal(t, 1, ran)
		drained(t, p, l)
	})
}

// Go reports whether the group took the task.
func TestGoReportsWhetherItTookTheTask(t *testing.T) {
	for _, queue := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 1)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			g := p.Group(t.Context())
			require.True(t, g.Go(nothing))
			require.True(t, g.GoN(0, nothing))
			require.NoError(t, g.Wait())
			require.False(t, g.Go(never), "after Wait")
			require.NoError(t, g.Wait(), "again")

			g = p.Group(t.Context())
			require.True(t, g.Go(fails))
			synctest.Wait()
			require.False(t, g.Go(never), "after an error")
			require.Equal(t, errTask, g.Wait())

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			g = p.Group(ctx)
			require.False(t, g.Go(never), "after the end of its context")
			require.Equal(t, context.Canceled, g.Wait())

			for _, invalid := range []func(g *worker.Group) bool{
				func(g *worker.Group) bool { return g.Go(nil) },
				func(g *worker.Group) bool { return g.GoN(-1, never) },
				func(g *worker.Group) bool { return g.GoN(2, never) },
			} {
				g = p.Group(t.Context())
				require.False(t, invalid(g))
				require.Error(t, g.Wait())
			}
			require.NoError(t, p.Close(t.Context()))
			g = p.Group(t.Context())
			require.False(t, g.Go(never), "after Close")
			require.Equal(t, worker.ErrClosed, g.Wait())
		})
	}
}

// While goroutines call Go, Wait returns: each task that was taken has run by then, and none runs later.
func TestStressGoBesideWait(t *testing.T) {
	for _, o := range []worker.Options{{}, {Queue: 4}, {Workers: 2}} {
		l := concurrency(t, 3)
		o.Limiter = l
		p := newPool(t, o)
		for range 3000 {
			g := p.Group(t.Context())
			var over atomic.Bool
			var taken, ran atomic.Int64
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					for range 3 {
						if g.Go(func(context.Context) error {
							if over.Load() {
								t.Error("a task runs after Wait")
							}
							ran.Add(1)
							return nil
						}) {
							taken.Add(1)
						}
					}
				})
			}
			err := g.Wait()
			over.Store(true)
			inWait := ran.Load()
			callers.Wait()
			if err != nil || taken.Load() != inWait || ran.Load() != inWait {
				t.Fatalf("%v: %d taken, %d ran before Wait returned, %d after", err, taken.Load(), inWait, ran.Load())
			}
		}
		drained(t, p, l)
	}
}

// hooked is a context of a user's whose AfterFunc registers nothing but runs a hook when it is stopped, as a
// context derived from it ends.
type hooked struct {
	context.Context

	done chan struct{}
	hook func()
}

func (h *hooked) Done() <-chan struct{} { return h.done }

func (h *hooked) AfterFunc(func()) (stop func() bool) {
	return func() bool { h.hook(); return true }
}

// No code of the user's context runs while a mutex of the group is held: it may use the group.
func TestAContextThatUsesItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 1)})
		ctx := &hooked{Context: t.Context(), done: make(chan struct{})}
		g := p.Group(ctx)
		called := false
		ctx.hook = func() {
			if !called {
				called = true
				require.False(t, g.Go(never))
				g.Go(nil)
			}
		}
		g.Go(fails)
		require.Equal(t, errTask, g.Wait())
		require.True(t, called)
		require.NoError(t, p.Close(t.Context()))
	})
}

// Groups that fail, are canceled and succeed side by side: each returns its own error, no
// task runs after Wait, and nothing is left.
func TestStressGroups(t *testing.T) {
	for _, o := range []worker.Options{{}, {Workers: 2}, {Queue: 4}, {Queue: 2, Workers: 1}, {Queue: 64}} {
		for _, users := range []bool{false, true} {
			l := concurrency(t, 3)
			o.Limiter = l
			if users {
				o.Limiter = &odd{ConcurrencyLimiter: l}
			}
			p := newPool(t, o)
			set := newPool(t, worker.Options{Limiter: core.Unlimited()}).Group(t.Context())
			for i := range 6 {
				set.Go(func(ctx context.Context) error {
					for round := range 40 {
						if err := oneGroup(ctx, p, i, round); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(t, set.Wait())
			require.NoError(t, p.Wait(t.Context()))
			drained(t, p, l)
		}
	}
}

func oneGroup(ctx context.Context, p *worker.Pool, i, round int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := p.Group(ctx)
	var over atomic.Bool
	for k := range 12 {
		g.Go(func(ctx context.Context) error {
			if over.Load() {
				panic("it runs after Wait")
			}
			runtime.Gosched()
			switch {
			case i%3 == 1 && k == round%12:
				return errTask
			case i%3 == 2 && k == round%12:
				cancel()
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	over.Store(true)
	want := []error{nil, errTask, context.Canceled}[i%3]
	if !errors.Is(err, want) && (want != nil || err != nil) {
		return errors.Join(errors.New("not its own error"), err)
	}
	return nil
}
