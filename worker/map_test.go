package worker_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/worker"
)

// naturals yields 0, 1, 2 and so on forever.
func naturals(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

func double(_ context.Context, i int) (int, error) { return 2 * i, nil }

func TestMapYieldsInOrder(t *testing.T) {
	for _, o := range []worker.Options{{}, {Queue: 3}, {Workers: 2}, {Workers: 2, Queue: 5}} {
		for _, limit := range []func(testing.TB, int) *core.ConcurrencyLimiter{concurrency, impatient} {
			synctest.Test(t, func(t *testing.T) {
				l := limit(t, 4)
				o.Limiter = l
				p := newPool(t, o)
				var now, most atomic.Int32
				next := 0
				for v, err := range worker.Map(t.Context(), p, upTo(200), func(_ context.Context, i int) (int, error) {
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
					time.Sleep(time.Duration(rand.IntN(50)))
					return 2 * i, nil
				}) {
					require.NoError(t, err)
					require.Equal(t, 2*next, v)
					next++
				}
				require.Equal(t, 200, next)
				require.EqualValues(t, min(4, max(o.Workers, 4*(1-min(o.Workers, 1)))), most.Load(), "all permits are in use")
				require.EqualValues(t, 200, p.Statistics().Done)
				drained(t, p, l)
			})
		}
	}
}

func TestMapKeepsErrorsInTheirPlace(t *testing.T) {
	p := newPool(t, worker.Options{Limiter: concurrency(t, 3)})
	var got []error
	for v, err := range worker.Map(t.Context(), p, upTo(5), func(_ context.Context, i int) (int, error) {
		switch i {
		case 1:
			return -1, errTask
		case 3:
			panic(i)
		}
		return i, nil
	}) {
		if len(got) == 1 {
			require.Equal(t, -1, v, "with what the function returned")
		}
		got = append(got, err)
	}
	require.Len(t, got, 5)
	require.ErrorIs(t, got[1], errTask)
	var caught *worker.PanicError
	require.ErrorAs(t, got[3], &caught)
	require.Equal(t, 3, caught.Value)
	for _, i := range []int{0, 2, 4} {
		require.NoError(t, got[i])
	}
	require.NoError(t, p.Wait(t.Context()))
	for _, err := range worker.Map[int, int](t.Context(), p, upTo(5), nil) {
		require.Error(t, err)
	}
	for _, err := range worker.Map(t.Context(), p, upTo(0), double) {
		require.NoError(t, err)
		require.Fail(t, "there was no input")
	}
}

func TestMapStopsWhenItsConsumerBreaksOff(t *testing.T) {
	for _, queue := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			l := concurrency(t, 3)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			var started, ended atomic.Int32
			read := 0
			in := func(yield func(int) bool) {
				for yield(read) {
					read++
				}
			}
			for v, err := range worker.Map(t.Context(), p, in, func(ctx context.Context, i int) (int, error) {
				started.Add(1)
				defer ended.Add(1)
				if i > 0 {
					<-ctx.Done()
					time.Sleep(time.Second)
				}
				return i, ctx.Err()
			}) {
				require.NoError(t, err)
				require.Zero(t, v)
				synctest.Wait()
				break
			}
			require.Equal(t, started.Load(), ended.Load(), "no task runs any more")
			require.Equal(t, 3, l.Available())
			require.LessOrEqual(t, read, 3+queue+2, "it took few inputs ahead")
			require.NoError(t, p.Wait(t.Context()))
			drained(t, p, l)
		})
	}
}

func TestMapEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 2)
		p := newPool(t, worker.Options{Limiter: l})
		ctx, cancel := context.WithCancel(t.Context())
		var errs []error
		for _, err := range worker.Map(ctx, p, naturals, double) {
			if errs = append(errs, err); len(errs) == 3 {
				cancel()
			}
		}
		require.Equal(t, []error{nil, nil, nil, context.Canceled}, errs)
		for _, err := range worker.Map(ctx, p, naturals, double) {
			require.Equal(t, context.Canceled, err)
		}

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		for _, err := range worker.Map(ctx, p, upTo(1), func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return 0, errTask
		}) {
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, time.Second, time.Since(start), "immediately")
		}
		require.Equal(t, 2*time.Second, time.Since(start), "but the loop ends with its tasks")
		drained(t, p, l)
	})
}

func TestMapDoesNotWaitForASlowInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 2)})
		start := time.Now()
		slow := func(yield func(int) bool) {
			for i := 0; yield(i); i++ {
				time.Sleep(time.Hour)
			}
		}
		n := 0
		for v, err := range worker.Map(t.Context(), p, slow, double) {
			require.NoError(t, err)
			require.Equal(t, 2*n, v)
			require.Equal(t, time.Duration(n)*time.Hour, time.Since(start))
			n++
			if n == 3 {
				break
			}
		}
		require.Equal(t, 2*time.Hour, time.Since(start), "nor when it breaks off")

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stuck := make(chan struct{})
		for _, err := range worker.Map(ctx, p, func(func(int) bool) { <-stuck }, double) {
			require.Equal(t, context.DeadlineExceeded, err)
		}
		require.Equal(t, 2*time.Hour+time.Minute, time.Since(start), "nor when its context ends")
		close(stuck)
		time.Sleep(time.Hour)
	})
}

// A Close that cancels ends the loop immediately.
func TestMapEndsWithItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 2)})
		done, cancel := context.WithCancel(t.Context())
		cancel()
		var errs []error
		go func() {
			synctest.Wait()
			p.Close(done)
		}()
		for _, err := range worker.Map(t.Context(), p, naturals, func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, nil
		}) {
			errs = append(errs, err)
		}
		require.Equal(t, []error{worker.ErrClosed}, errs)
	})
}

// A Close that drains takes no result from a Map: the inputs that were submitted before are
// run, and their results are yielded.
func TestMapYieldsWhatACloseLetEnd(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"no queue": {Limiter: concurrency(t, 3)}, "no queue in the limiter": {Limiter: impatient(t, 3)},
		"a queue": {Limiter: concurrency(t, 3), Queue: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, o)
				var ran atomic.Int64
				var got []int
				var last error
				for v, err := range worker.Map(t.Context(), p, naturals, func(_ context.Context, n int) (int, error) {
					time.Sleep(time.Duration(n+1) * time.Second)
					ran.Add(1)
					return n, nil
				}) {
					require.NoError(t, last, "the last")
					if last = err; err == nil {
						got = append(got, v)
					}
					if v == 1 && len(got) == 2 {
						require.NoError(t, p.Close(t.Context()))
						synctest.Wait()
					}
				}
				require.Equal(t, worker.ErrClosed, last)
				require.Len(t, got, int(ran.Load()))
				require.Greater(t, len(got), 3)
				require.True(t, slices.IsSorted(got))
			})
		})
	}
}

func TestMapPassesOnAPanicOfItsInput(t *testing.T) {
	p := newPool(t, worker.Options{Limiter: concurrency(t, 2)})
	in := func(yield func(int) bool) {
		yield(1)
		panic("in the input")
	}
	got := 0
	require.PanicsWithValue(t, "in the input", func() {
		for v, err := range worker.Map(t.Context(), p, in, double) {
			require.NoError(t, err)
			got = v
		}
	})
	require.Equal(t, 2, got, "after the results before it")

	require.PanicsWithValue(t, "in the loop", func() {
		for _, err := range worker.Map(t.Context(), p, naturals, double) {
			require.NoError(t, err)
			panic("in the loop")
		}
	})
	require.NoError(t, p.Wait(t.Context()))
}

func TestMapRunsAsManyAtOnceAsARateStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}))
		l := core.Must(core.Chain(concurrency(t, 8), rate))
		p := newPool(t, worker.Options{Limiter: l})
		start := time.Now()
		for _, err := range worker.Map(t.Context(), p, upTo(16), func(context.Context, int) (int, error) {
			time.Sleep(8 * time.Second)
			return 0, nil
		}) {
			require.NoError(t, err)
		}
		require.Equal(t, 23*time.Second, time.Since(start))
	})
}

// However a Close comes, Map yields ErrClosed once at most, as the last, and before it the result of each call of f, unless
// the Close cancels.
func TestStressMapYieldsErrClosedOnce(t *testing.T) {
	for round := range 600 {
		l := concurrency(t, 1+round%3)
		o := worker.Options{Limiter: l, Queue: round % 5}
		if round%2 == 1 {
			o.Limiter = &odd{ConcurrencyLimiter: l}
		}
		p := newPool(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		closed := later(func() error {
			for range round % 50 {
				runtime.Gosched()
			}
			if round%4 == 0 {
				cancel()
			}
			return p.Close(ctx)
		})
		var errs []error
		var ran atomic.Int64
		results := int64(0)
		for _, err := range worker.Map(t.Context(), p, upTo(2000), func(context.Context, int) (int, error) {
			ran.Add(1)
			runtime.Gosched()
			return 0, nil
		}) {
			if len(errs) > 0 || err != nil {
				errs = append(errs, err)
			} else {
				results++
			}
		}
		if round%4 > 0 {
			require.Equal(t, ran.Load(), results)
		}
		if err := <-closed; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
		if len(errs) > 0 { // else it was done before
			require.Equal(t, []error{worker.ErrClosed}, errs)
		}
		require.NoError(t, p.Close(t.Context()))
		drained(t, p, l)
	}
}

// A Close ends the loop after the results of the submitted inputs, even while the input blocks.
func TestMapEndsWithItsPoolWhileItsInputBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, worker.Options{Limiter: concurrency(t, 1)})
		in := func(yield func(int) bool) {
			yield(1)
			time.Sleep(time.Hour)
		}
		time.AfterFunc(time.Second, func() { _ = p.Close(t.Context()) })
		start := time.Now()
		var errs []error
		for _, err := range worker.Map(t.Context(), p, in, func(context.Context, int) (int, error) {
			time.Sleep(2 * time.Second)
			return 0, nil
		}) {
			errs = append(errs, err)
		}
		require.Equal(t, []error{nil, worker.ErrClosed}, errs)
		require.Equal(t, 2*time.Second, time.Since(start))
		time.Sleep(time.Hour)
	})
}

// A closed limiter ends the loop, as a closed pool does; an error of f that is the same does not.
func TestMapEndsWithItsLimiter(t *testing.T) {
	for _, queue := range []int{0, 3} {
		testkit.Bubble(t, fmt.Sprintf("queue=%d", queue), func(t *testing.T) {
			l := concurrency(t, 2)
			p := newPool(t, worker.Options{Limiter: l, Queue: queue})
			var errs []error
			for v, err := range worker.Map(t.Context(), p, naturals, func(_ context.Context, i int) (int, error) {
				return i, core.ErrClosed
			}) {
				if errs = append(errs, err); v == 5 {
					l.Close()
				}
				require.Less(t, len(errs), 100)
			}
			require.Greater(t, len(errs), 6)
			for _, err := range errs {
				require.Equal(t, core.ErrClosed, err)
			}
			require.NoError(t, p.Close(t.Context()))
		})
	}
}
