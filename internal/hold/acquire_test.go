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
	"github.com/sluice-go/sluice/internal/hold"
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

// waiters are limiters that grant no permit in time, core's and a user's.
func waiters(tb testing.TB) map[string]core.Limiter {
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
			return core.Grant(n, nil), nil
		}},
		"lying": limiter{held, func(ctx context.Context, n int) (core.Lease, error) {
			<-ctx.Done()
			return core.Grant(n, nil), ctx.Err()
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
		for name, l := range waiters(t) {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				if name == "user's, wrapping" && (test.want == errOwn || test.want == context.DeadlineExceeded) { //nolint:errorlint // that very error
					t.Skip("the limiter's own error stands")
				}
				var s wait.Source
				ctx := testkit.NewContext()
				time.AfterFunc(time.Millisecond, func() { test.end(ctx, &s) })
				lease, err := hold.Acquire(ctx, &s, l, 1)
				require.Equal(t, test.want, err)
				require.False(t, lease.Acquired())
				if name != "lying" {
					require.Equal(t, test.want, lease.Err())
				}
			})
		}
	}
}

// A late grant goes back, to a user's limiter too.
func TestALimiterThatIgnoresItsContext(t *testing.T) {
	inner := concurrency(t, 1, 0)
	var s wait.Source
	ctx, cancel := context.WithCancel(t.Context())
	late := limiter{inner, func(ctx context.Context, n int) (core.Lease, error) {
		cancel()
		<-ctx.Done()
		return inner.TryAcquire(n), nil
	}}
	_, err := hold.Acquire(ctx, &s, late, 1)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 1, inner.Available())

	closing := limiter{inner, func(_ context.Context, n int) (core.Lease, error) {
		s.End(errClosed)
		return inner.TryAcquire(n), nil
	}}
	_, err = hold.Acquire(t.Context(), &s, closing, 1)
	require.Equal(t, errClosed, err)
	require.Equal(t, 1, inner.Available())
}

// What a limiter answers comes back: a lease, a refusal with its metadata, or the error of
// one that gives neither.
func TestAnswers(t *testing.T) {
	var s wait.Source
	l := concurrency(t, 2, 0)
	lease, err := hold.Acquire(t.Context(), &s, l, 2)
	require.NoError(t, err)
	require.Equal(t, 2, lease.Permits())
	refused, err := hold.Acquire(t.Context(), &s, l, 1)
	require.ErrorIs(t, err, core.ErrRejected)
	require.Same(t, err, refused.Err())
	left, ok := core.Remaining.From(refused)
	require.True(t, ok)
	require.Zero(t, left)
	_, err = hold.Acquire(t.Context(), &s, l, 3)
	require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
	lease.Release()
	require.Equal(t, core.Statistics{Limit: 2, Available: 2, Granted: 1, Rejected: 1}, l.Statistics())

	nothing := limiter{l, func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil }}
	refused, err = hold.Acquire(t.Context(), &s, nothing, 1)
	require.ErrorIs(t, err, core.ErrRejected)
	require.False(t, refused.Acquired())
	own := limiter{l, func(context.Context, int) (core.Lease, error) { return core.Fail(errOwn), errOwn }}
	_, err = hold.Acquire(t.Context(), &s, own, 1)
	require.Equal(t, errOwn, err)
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
		require.PanicsWithValue(t, "odd", func() { _, _ = hold.Acquire(t.Context(), &s, l, 1) })
		require.Equal(t, context.Canceled, context.Cause(inside), "its context has ended")
		_, err := hold.Acquire(t.Context(), &s, concurrency(t, 1, 0), 1)
		require.NoError(t, err)
		require.True(t, s.End(errClosed))
	})
}

// A wait costs a context, and no more.
func TestAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	var s wait.Source
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	grant := core.Grant(1, nil)
	var l core.Limiter = &limiter{concurrency(t, 1, 0), func(ctx context.Context, _ int) (core.Lease, error) {
		ctx.Done()
		return grant, nil
	}}
	own := testing.AllocsPerRun(1000, func() { _, _ = l.Acquire(ctx, 1) })
	all := testing.AllocsPerRun(1000, func() { _, _ = hold.Acquire(ctx, &s, l, 1) })
	require.LessOrEqual(t, all-own, 4.0)

	free := concurrency(t, 1, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		lease, _ := hold.Acquire(ctx, &s, free, 1)
		lease.Release()
	}), "no wait, no context")
}

// Grants, cancellations and the end of the source race: each call ends with a lease or with
// its own reason, no more is out than the limit, and in the end everything is back.
func TestStress(t *testing.T) {
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
				lease, err := hold.Acquire(ctx, s, l, n)
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
					asked.Release(h)
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
