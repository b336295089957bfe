package worker_test

import (
	"context"
	"fmt"
	"runtime"
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

// A stranger who waits for more than there is keeps the queue full, though permits are
// free: a queued task is refused, and a probe is granted. The pool asks again now and
// then; it does not spin.
func TestAStrangersQueueKeepsATaskOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 8})
		require.NoError(t, err)
		held := l.TryAcquire(5)
		ctx, cancel := context.WithCancel(t.Context())
		stranger := later(func() error {
			_, err := l.Acquire(ctx, 8)
			return err
		})
		waiting(t, stranger)
		p := newPool(t, worker.Options{Limiter: l, Queue: 1})
		submits(t, p, nothing)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, worker.Statistics{Queued: 1}, p.Statistics())
		require.Less(t, l.Statistics().Rejected, uint64(250), "asked every 50 ms in the end")
		cancel()
		require.Equal(t, context.Canceled, returned(t, stranger))
		require.NoError(t, p.Wait(t.Context()))
		held.Release()
		drained(t, p, l)
	})
}

// A limiter that names an instant which never holds is asked ever less often.
func TestARetryAfterThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
		l.try = func(int) core.Lease { return core.Reject(core.RetryAfter.With(1)) }
		l.acquire = func(_ context.Context, n int) (core.Lease, error) {
			asked.Add(1)
			refusal := l.try(n)
			return refusal, refusal.Err()
		}
		p := newPool(t, worker.Options{Limiter: l, Queue: 1})
		submits(t, p, nothing)
		time.Sleep(10 * time.Second)
		require.Less(t, asked.Load(), int32(250))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Close(done), context.Canceled)
		require.ErrorIs(t, p.Wait(t.Context()), worker.ErrClosed)
	})
}

// A limiter that panics, or exits its goroutine, in a Submit leaves nothing behind there.
func TestALimiterThatPanicsInSubmit(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"unqueued": {}, "worker": {Workers: 1}, "queued": {Queue: 1}, "queued, worker": {Queue: 1, Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &odd{ConcurrencyLimiter: concurrency(t, 1)}
				o.Limiter = l
				p := newPool(t, o)
				l.try = func(int) core.Lease { panic("in the limiter") }
				l.acquire = func(context.Context, int) (core.Lease, error) { panic("in the limiter") }
				require.PanicsWithValue(t, "in the limiter", func() { _ = p.TrySubmit(nothing) })
				require.PanicsWithValue(t, "in the limiter", func() { _ = p.Submit(t.Context(), nothing) })
				l.try, l.acquire = nil, nil
				submits(t, p, nothing)
				require.NoError(t, p.Wait(t.Context()))
				require.Equal(t, worker.Statistics{Done: 1}, p.Statistics())
				drained(t, p, l)
			})
		})
	}
}

// A limiter that keeps the context it was given can use it for ever; it has ended.
func TestALimiterThatKeepsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []context.Context
		l := &odd{ConcurrencyLimiter: concurrency(t, 2)}
		l.try = func(int) core.Lease { return core.Reject() }
		l.acquire = func(ctx context.Context, n int) (core.Lease, error) {
			kept = append(kept, ctx)
			return l.ConcurrencyLimiter.Acquire(ctx, n)
		}
		p := newPool(t, worker.Options{Limiter: l})
		submits(t, p, two(nothing)...)
		_, err := worker.Do(t.Context(), p, func(context.Context) (int, error) { return 1, nil })
		require.NoError(t, err)
		require.Len(t, kept, 3)
		for _, ctx := range kept {
			<-ctx.Done()
			require.Error(t, ctx.Err())
		}
		drained(t, p, l)
	})
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
					l.try = func(n int) core.Lease {
						if left--; left < 0 {
							end()
						}
						return l.ConcurrencyLimiter.TryAcquire(n)
					}
					l.acquire = func(ctx context.Context, n int) (core.Lease, error) {
						if left--; left < 0 {
							end()
						}
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
