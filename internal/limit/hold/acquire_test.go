package hold_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

var (
	errClosed = errors.New("closed")
	errOwn    = errors.New("own")
)

// limiter is a user's: its Acquire is a function.
type limiter struct {
	core.Limiter

	acquire func(ctx context.Context, n int) (core.Lease, error)
}

func (l limiter) Acquire(ctx context.Context, n int) (core.Lease, error) { return l.acquire(ctx, n) }

func concurrency(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	require.NoError(tb, err)
	return l
}

// waiters are limiters that grant no permit in time, core's and a user's. Those that grant one too late take it from
// spare.
func waiters(tb testing.TB, spare core.Limiter) map[string]core.Limiter {
	tb.Helper()
	held := concurrency(tb, 1, 10)
	held.TryAcquire(1)
	rate, err := core.NewTokenBucket(core.Every(time.Hour, 1))
	require.NoError(tb, err)
	rate.TryAcquire(1)
	chained, err := core.Chain(concurrency(tb, 5, 5), held)
	require.NoError(tb, err)
	return map[string]core.Limiter{
		"concurrency": held, "chain": chained, "view": core.WithReason(held, "full"),
		"user's": limiter{held, func(ctx context.Context, _ int) (core.Lease, error) {
			<-ctx.Done()
			return core.Fail(ctx.Err()), ctx.Err()
		}},
		"user's, wrapping": limiter{held, func(ctx context.Context, _ int) (core.Lease, error) {
			<-ctx.Done()
			err := errors.Join(ctx.Err())
			return core.Fail(err), err
		}},
		"late": limiter{held, func(ctx context.Context, n int) (core.Lease, error) {
			<-ctx.Done() // and ignores it
			return spare.TryAcquire(n), nil
		}},
		"lying": limiter{held, func(ctx context.Context, n int) (core.Lease, error) {
			<-ctx.Done()
			return spare.TryAcquire(n), ctx.Err()
		}},
	}
}

func TestErrorsOfAWait(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(ctx *testkit.Context, s *wait.Source)
		want error
	}{
		{"canceled", func(ctx *testkit.Context, _ *wait.Source) { ctx.End(context.Canceled) }, context.Canceled},
		{"deadline", func(ctx *testkit.Context, _ *wait.Source) { ctx.End(context.DeadlineExceeded) }, context.DeadlineExceeded},
		{"own", func(ctx *testkit.Context, _ *wait.Source) { ctx.End(errOwn) }, errOwn},
		{"source", func(_ *testkit.Context, s *wait.Source) { s.End(errClosed) }, errClosed},
		{"both", func(ctx *testkit.Context, s *wait.Source) { ctx.End(context.DeadlineExceeded); s.End(errClosed) }, context.DeadlineExceeded},
	} {
		spare := concurrency(t, 1, 0)
		for name, l := range waiters(t, spare) {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				if name == "user's, wrapping" && (test.want == errOwn || test.want == context.DeadlineExceeded) { //nolint:errorlint // that very error
					t.Skip("the limiter's own error stands")
				}
				var s wait.Source
				ctx := testkit.NewContext()
				time.AfterFunc(time.Millisecond, func() { test.end(ctx, &s) })
				lease, err := hold.Acquire(ctx, &s, l, 1, false)
				require.Equal(t, test.want, err)
				require.False(t, lease.Acquired())
				require.Equal(t, 1, spare.Available())
				if name != "lying" {
					require.Equal(t, test.want, lease.Err())
				}
			})
		}
	}
}

// After a panic the source has no call left, and can be used.
func TestALimiterThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s wait.Source
		var inside context.Context
		l := limiter{concurrency(t, 1, 0), func(ctx context.Context, _ int) (core.Lease, error) {
			inside = ctx //nolint:fatcontext // looked at after the panic
			panic("odd")
		}}
		require.PanicsWithValue(t, "odd", func() { _, _ = hold.Acquire(t.Context(), &s, l, 1, false) })
		require.Equal(t, context.Canceled, context.Cause(inside), "its context has ended")
		_, err := hold.Acquire(t.Context(), &s, concurrency(t, 1, 0), 1, false)
		require.NoError(t, err)
		require.True(t, s.End(errClosed))
	})
}

// Grants, cancellations and the end of the source race: each call ends with a lease or with
// its own reason, no more is out than the limit, and in the end everything is back.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, workers, rounds = 2, 8, 500
		l := concurrency(t, limit, 100)
		var current atomic.Pointer[wait.Source]
		current.Store(new(wait.Source))
		var out atomic.Int64
		var working sync.WaitGroup
		for w := range workers {
			working.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 9))
				for range rounds {
					ctx, cancel := context.WithCancel(t.Context())
					if random.IntN(3) == 0 {
						go cancel()
					}
					s := current.Load()
					n := 1 + random.IntN(limit)
					lease, err := hold.Acquire(ctx, s, l, n, false)
					switch {
					case err == nil:
						if out.Add(int64(n)) > limit {
							t.Error("more than the limit is out")
						}
						time.Sleep(time.Microsecond)
						out.Add(int64(-n))
						lease.Release()
					case err == errClosed: //nolint:errorlint // that very error
						if s.Cause() == nil {
							t.Error("it is not closed")
						}
					case err != context.Canceled || ctx.Err() == nil: //nolint:errorlint // that very error
						t.Error(err)
					}
					cancel()
				}
			})
		}
		stop := make(chan struct{})
		var ender sync.WaitGroup
		ender.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					current.Swap(new(wait.Source)).End(errClosed)
				}
			}
		})
		working.Wait()
		close(stop)
		ender.Wait()
		require.Equal(t, limit, l.Available())
		require.Zero(t, l.Statistics().Queued)
	})
}

// errPanics is a context whose Err panics at one of its calls.
type errPanics struct {
	context.Context
	left int // calls until then
}

func (c *errPanics) Err() error {
	c.left--
	if c.left == 0 {
		panic("Err")
	}
	return c.Context.Err()
}

// Whichever call of the context's Err panics, nothing stays held.
func TestNothingIsHeldIfErrPanics(t *testing.T) {
	inner := concurrency(t, 2, 2)
	for name, l := range map[string]core.Limiter{
		"plain permits": inner,
		"leases":        limiter{inner, inner.Acquire},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			asked := hold.Of(l)
			for call := 1; ; call++ {
				var s wait.Source
				held := inner.TryAcquire(2)
				require.True(t, held.Acquired())
				time.AfterFunc(time.Second, held.Release)
				panicked := func() (panicked bool) {
					defer func() { panicked = recover() != nil }()
					h, err := asked.Take(&errPanics{t.Context(), call}, &s, 1)
					require.NoError(t, err)
					asked.Refund(h)
					return false
				}()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, 2, inner.Available(), "at call %d", call)
				if !panicked {
					require.Greater(t, call, 1)
					return
				}
			}
		})
	}
}
