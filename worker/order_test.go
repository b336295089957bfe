package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/worker"
)

// withOrder returns a limiter of one permit with that order.
func withOrder(o core.QueueOrder) *core.ConcurrencyLimiter {
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueOrder: o}))
}

// Tasks that come after a change of the limiter's order start in the new order behind those that wait, however often it
// changes, and whatever the pool reaches the limiter through.
func TestOrderThatChanges(t *testing.T) {
	for name, through := range map[string]func(l core.Limiter) core.Limiter{
		"limiter": func(l core.Limiter) core.Limiter { return l },
		"switch":  func(l core.Limiter) core.Limiter { return core.NewSwitch(core.WithReason(l, "busy")) },
		"chain":   func(l core.Limiter) core.Limiter { return core.Must(core.Chain(core.Unlimited(), l)) },
		"key": func(l core.Limiter) core.Limiter {
			keyed := core.Must(partition.NewByKey(func(string) (core.Limiter, error) { return l, nil }))
			key := partition.For(keyed, "a")
			key.TryAcquire(1).Release() // it is live
			return key
		},
	} {
		for _, queue := range []int{0, 20} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := withOrder(core.OldestFirst)
					p := newPool(t, worker.Options{Limiter: through(l), Queue: queue})
					got := ""
					submit := func(names string) {
						for _, name := range names {
							go func() {
								_ = p.Submit(t.Context(), func(context.Context) error {
									time.Sleep(time.Millisecond)
									got += string(name)
									return nil
								})
							}()
							synctest.Wait()
						}
					}
					order := func(o core.QueueOrder) {
						require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueOrder: o}))
					}
					submit("012")
					order(core.NewestFirst)
					submit("ab")
					order(core.OldestFirst)
					submit("cd")
					time.Sleep(time.Second)
					require.NoError(t, p.Close(t.Context()))
					require.Equal(t, "012bacd", got)
				})
			})
		}
	}
}

// A pool whose limiter is another now has the order of that one.
func TestOrderOfASwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := core.NewSwitch(concurrency(t, 1))
		p := newPool(t, worker.Options{Limiter: s, Queue: 20})
		s.Set(withOrder(core.NewestFirst))
		var got []int
		for i := range 5 {
			submits(t, p, func(context.Context) error {
				time.Sleep(time.Millisecond)
				got = append(got, i)
				return nil
			})
			synctest.Wait()
		}
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, []int{0, 1, 4, 3, 2}, got, "0 runs, and the limiter is being asked for 1")
	})
}

// A task that has its permit and waits for a goroutine alone is not overtaken by one that gets the permit of a task that ends.
func TestATaskThatWaitsForAGoroutineIsNotOvertaken(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no other goroutine runs before the first task ends
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 2), Queue: 1})
		started := make(chan string, 2)
		submits(t, p, func(context.Context) error {
			for _, name := range []string{"a", "b"} {
				if err := p.TrySubmit(func(context.Context) error { started <- name; return nil }); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, "a", <-started)
		require.NoError(t, p.Close(t.Context()))
	})
}

// TrySubmit does not overtake a Submit that waits, even while permits are on their way to it.
func TestTrySubmitOvertakesNobody(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			l := impatient(t, 2)
			p := newPool(t, worker.Options{Limiter: l})
			held := l.TryAcquire(2)
			end := make(chan struct{})
			started := make(chan string, 3)
			task := func(name string) worker.Task {
				return func(context.Context) error { started <- name; <-end; return nil }
			}
			first := later(func() error { return p.Submit(t.Context(), task("first")) })
			synctest.Wait()
			second := later(func() error { return p.Submit(t.Context(), task("second")) })
			synctest.Wait()
			held.Release()
			tried := p.TrySubmit(task("tried"))
			for range 2 {
				if name := <-started; tried == nil {
					require.NotEqual(t, "tried", name)
				}
			}
			close(end)
			require.NoError(t, <-first)
			require.NoError(t, <-second)
			require.NoError(t, p.Close(t.Context()))
		})
	}
}

// A TrySubmit whose answer comes while a Submit asks the limiter lets nobody overtake that Submit.
func TestATrySubmitBesideASubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &odd{ConcurrencyLimiter: impatient(t, 1)}
		held := l.ConcurrencyLimiter.TryAcquire(1)
		answer := newGate()
		l.try = func(n int) core.Lease {
			<-answer
			return l.ConcurrencyLimiter.TryAcquire(n)
		}
		asked := 0
		l.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			asked++
			<-answer
			<-ctx.Done()
			return core.Fail(ctx.Err()), ctx.Err()
		}
		p := newPool(t, worker.Options{Limiter: l})
		try := later(func() error { return p.TrySubmit(never) })
		waiting(t, try)
		ctx, cancel := context.WithCancel(t.Context())
		first := later(func() error { return p.Submit(ctx, never) })
		waiting(t, first)
		answer.open()
		require.ErrorIs(t, returned(t, try), core.ErrRejected)
		second := later(func() error { return p.Submit(ctx, never) })
		waiting(t, second)
		require.Equal(t, 1, asked, "the second waits for the first")
		cancel()
		require.Equal(t, context.Canceled, returned(t, first))
		require.Equal(t, context.Canceled, returned(t, second))
		held.Release()
		drained(t, p, l)
	})
}

// A pool whose limiter grants nothing keeps no tasks of calls that have given up.
func TestCallsThatGiveUpAreNotKept(t *testing.T) {
	for queue, do := range map[int]bool{0: false, 2: false, 200: true} {
		testkit.Bubble(t, fmt.Sprintf("queue=%d", queue), func(t *testing.T) {
			l := concurrency(t, 1)
			held := l.TryAcquire(1)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			for range min(queue, 2) {
				submits(t, p, nothing)
			}
			var kept []weak.Pointer[[1024]int]
			for range 101 {
				ctx, cancel := context.WithCancel(t.Context())
				value := new([1024]int)
				kept = append(kept, weak.Make(value))
				task := func(context.Context) error { value[0]++; return nil }
				call := later(func() error {
					if !do {
						return p.Submit(ctx, task)
					}
					_, err := worker.Do(ctx, p, func(ctx context.Context) (int, error) { return 0, task(ctx) })
					return err
				})
				waiting(t, call)
				cancel()
				require.Equal(t, context.Canceled, returned(t, call))
			}
			collect := func() int {
				runtime.GC()
				runtime.GC()
				kept = slices.DeleteFunc(kept, func(p weak.Pointer[[1024]int]) bool { return p.Value() == nil })
				return len(kept)
			}
			require.Less(t, collect(), 10)
			held.Release()
			require.NoError(t, p.Wait(t.Context()))
			require.Zero(t, collect(), "the pool is idle")
			drained(t, p, l)
		})
	}
}

// A limiter whose order changes again and again does not make a pool grow from whose queue all tasks are taken back.
func TestOrdersOfTasksThatAreTakenBackAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 2000
		l := concurrency(t, 1)
		held := l.TryAcquire(1)
		p := newPool(t, worker.Options{Limiter: l, Queue: 10})
		submits(t, p, nothing)
		submits(t, p, two(nothing)...)
		synctest.Wait()
		memory := func() (m runtime.MemStats) {
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m
		}
		before := memory().HeapAlloc
		for i := range rounds {
			o := l.Options()
			o.QueueOrder = core.QueueOrder(i % 3)
			require.NoError(t, l.Update(o))
			ctx, cancel := context.WithCancel(t.Context())
			cancelled := later(func() error {
				_, err := worker.Do(ctx, p, func(context.Context) (int, error) { return 0, nil })
				return err
			})
			synctest.Wait()
			cancel()
			require.Equal(t, context.Canceled, returned(t, cancelled))
		}
		require.Less(t, int64(memory().HeapAlloc-before), int64(rounds*50))
		held.Release()
		require.NoError(t, p.Wait(t.Context()))
		drained(t, p, l)
	})
}

// Map reads ahead as far as the limiter of the moment suggests, whatever Map reaches it through.
func TestMapLooksAtTheCurrentLimiter(t *testing.T) {
	rate := func() core.Limiter { return core.Must(core.NewTokenBucket(core.PerSecond(1000, 1))) }
	for name, l := range map[string]core.Limiter{
		"bucket": rate(),
		"view":   core.WithReason(rate(), "later"),
		"switch": core.NewSwitch(rate()),
		"key": partition.For(core.Must(partition.NewByKey(func(string) (core.Limiter, error) {
			return rate(), nil
		})), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, worker.Options{Limiter: l})
				start := time.Now()
				for _, err := range worker.Map(t.Context(), p, upTo(200), func(_ context.Context, i int) (int, error) {
					time.Sleep(100 * time.Millisecond)
					return i, nil
				}) {
					require.NoError(t, err)
				}
				require.Less(t, time.Since(start), time.Second, "the rate decides, not the burst")
			})
		})
	}
	t.Run("exchanged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := core.NewSwitch(concurrency(t, 1))
			p := newPool(t, worker.Options{Limiter: s})
			start := time.Now()
			for i, err := range worker.Map(t.Context(), p, upTo(200), func(_ context.Context, i int) (int, error) {
				time.Sleep(100 * time.Millisecond)
				return i, nil
			}) {
				require.NoError(t, err)
				if i == 0 {
					s.Set(concurrency(t, 100))
				}
			}
			require.Less(t, time.Since(start), time.Second)
		})
	})
}

// releases is a user's limiter whose leases panic when they are released.
type releases struct{ core.Limiter }

func (r releases) TryAcquire(int) core.Lease { return core.Grant(1, func() { panic("odd") }) }

func (r releases) Acquire(context.Context, int) (core.Lease, error) { return r.TryAcquire(1), nil }

// A panic of a release is the error of the task, and the worker goes on.
func TestReleaseThatPanics(t *testing.T) {
	for _, queue := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, worker.Options{Limiter: releases{core.Unlimited()}, Queue: queue})
			submits(t, p, two(nothing)...)
			var panicked *worker.PanicError
			require.ErrorAs(t, p.Wait(t.Context()), &panicked)
			require.Equal(t, "odd", panicked.Value)
			require.Equal(t, worker.Statistics{Done: 2, Failed: 2}, p.Statistics())
		})
	}
}

// A group is not kept alive by its pool once its tasks have ended, even if nobody waits for it.
func TestAGroupThatIsNotWaitedForIsNotKept(t *testing.T) {
	for name, tasks := range map[string][]worker.Task{
		"no task": nil, "tasks": {nothing, nothing}, "an error": {fails}, "a panic": {func(context.Context) error { panic("odd") }},
	} {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 1), Queue: 2})
		var kept weak.Pointer[[1024]int]
		func() {
			value := new([1024]int)
			kept = weak.Make(value)
			type key struct{}
			g := p.Group(context.WithValue(context.Background(), key{}, value)) //nolint:usetesting // it keeps nothing alive
			for _, task := range tasks {
				require.True(t, g.Go(task), name)
			}
			require.NoError(t, p.Wait(t.Context()))
		}()
		for range 1000 { // the last worker may still be on its way out
			runtime.GC()
			if kept.Value() == nil {
				break
			}
			runtime.Gosched()
		}
		isKept := kept.Value() != nil // the failure would print the value
		require.False(t, isKept, name)
		require.NoError(t, p.Close(t.Context()))
	}
}

// A group that had no task for a while still ends with its pool.
func TestAGroupThatPausesEndsWithItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 1)})
		g := p.Group(t.Context())
		require.True(t, g.Go(nothing))
		synctest.Wait()
		require.True(t, g.Go(hears))
		synctest.Wait()
		closesNow(t, p)
		require.ErrorIs(t, g.Wait(), worker.ErrClosed)
		require.False(t, g.Go(nothing))
	})
}

func TestTheZeroGroupIsClosed(t *testing.T) {
	var g worker.Group
	require.False(t, g.Go(nothing))
	require.False(t, g.GoN(2, nothing))
	require.ErrorIs(t, g.Wait(), core.ErrClosed)
}

// TrySubmit finds room in the queue if tasks that wait there can start now, even if no worker has run yet.
func TestTrySubmitStartsWhatCanStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: impatient(t, 3), Queue: 1})
		g := newGate()
		for range 4 {
			require.NoError(t, p.TrySubmit(g.task))
		}
		rejected(t, p, core.ReasonQueueLimit)
		counts(t, p, worker.Statistics{Running: 3, Queued: 1})
		g.open()
		require.NoError(t, p.Close(t.Context()))
	})
}

// A pool with a queue counts each grant, lets whoever waits in the limiter in, and obeys a lower limit.
func TestABusyPoolSharesItsLimiter(t *testing.T) {
	l := impatient(t, 2)
	p := newPool(t, worker.Options{Limiter: l, Queue: 100})
	const tasks = 1000
	others := 0
	for i := range tasks {
		submits(t, p, nothing)
		if i%10 == 0 {
			lease, err := l.Acquire(t.Context(), 1)
			if err != nil { // it has no queue
				continue
			}
			others++
			lease.Release()
		}
	}
	require.NoError(t, p.Wait(t.Context()))
	require.EqualValues(t, tasks+others, l.Statistics().Granted)
	require.Equal(t, 2, l.Available())

	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 4)
		p := newPool(t, worker.Options{Limiter: l, Queue: 100})
		var running, most atomic.Int32
		for range 40 {
			submits(t, p, func(context.Context) error {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				running.Add(-1)
				return nil
			})
		}
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		lease, err := l.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(start), "the first permit that comes back is its")
		lease.Release()
		synctest.Wait()
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
		time.Sleep(2 * time.Second)
		most.Store(0)
		time.Sleep(3 * time.Second)
		require.EqualValues(t, 1, most.Load())
		require.NoError(t, p.Close(t.Context()))
	})
}

// Whatever the order, calls that give up leave no gap and keep no room: the others start in the order.
func TestCallsThatGiveUp(t *testing.T) {
	const calls, stay = 100, 3 // every third call stays
	for _, mode := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		for _, queue := range []int{0, calls} {
			testkit.Bubble(t, fmt.Sprintf("%v/queue=%d", mode, queue), func(t *testing.T) {
				l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueOrder: mode}))
				p := newPool(t, worker.Options{Limiter: l, Queue: queue})
				held := l.TryAcquire(1)
				var started []int
				cancels := make([]context.CancelFunc, calls)
				var want []int
				for i := range calls {
					var ctx context.Context
					ctx, cancels[i] = context.WithCancel(t.Context())
					if i%stay == stay-1 {
						want = append(want, i)
					}
					go func() {
						_, _ = worker.Do(ctx, p, func(context.Context) (int, error) {
							started = append(started, i) // one at a time
							return 0, nil
						})
					}()
					synctest.Wait()
				}
				if mode == core.NewestFirst {
					slices.Reverse(want)
				}
				for round := range stay - 1 {
					for i := round; i < calls; i += stay {
						cancels[i]()
					}
					synctest.Wait()
				}
				if queue > 0 {
					counts(t, p, worker.Statistics{Queued: len(want), Done: calls - uint64(len(want)), Failed: calls - uint64(len(want))})
				}
				held.Release()
				synctest.Wait()
				require.Equal(t, want, started)
				drained(t, p, l)
				for _, cancel := range cancels {
					cancel()
				}
			})
		}
	}
}

// A task gets room in a full queue if the first task there can start, even before a worker has noticed; but calls that wait
// for room come first.
func TestTrySubmitMakesRoom(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no worker notices
	for blocked := range 3 {
		testkit.Bubble(t, fmt.Sprintf("blocked=%d", blocked), func(t *testing.T) {
			l := concurrency(t, 2)
			p := newPool(t, worker.Options{Limiter: l, Queue: 3})
			first, others := newGate(), newGate()
			require.NoError(t, p.SubmitN(t.Context(), 2, first.task))
			accepted := 0
			submits(t, p, func(ctx context.Context) error { // starts when both permits are free
				for p.TrySubmit(nothing) == nil {
					accepted++
				}
				return others.task(ctx)
			})
			submits(t, p, two(others.task)...)
			for range blocked {
				later(func() error { return p.Submit(t.Context(), nothing) })
			}
			synctest.Wait()
			first.open()
			synctest.Wait()
			require.Equal(t, 2-blocked, accepted)
			others.open()
			drained(t, p, l)
		})
	}
}
