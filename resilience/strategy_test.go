package resilience_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

func nothing(context.Context) error { return nil }

// never is a function that must not run.
func never(t *testing.T) func(context.Context) error {
	t.Helper()
	return func(context.Context) error {
		t.Error("the function ran")
		return nil
	}
}

// occupied runs one function in s until free is called.
func occupied(s *resilience.Strategy) (free func()) {
	started, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Do(context.Background(), func(context.Context) error {
			close(started)
			<-end
			return nil
		})
	}()
	<-started
	return func() {
		close(end)
		<-done
	}
}

// many runs n functions in s until free is called.
func many(s *resilience.Strategy, n int) (free func()) {
	frees := make([]func(), n)
	for i := range frees {
		frees[i] = occupied(s)
	}
	return func() {
		for _, f := range frees {
			f()
		}
	}
}

func bucket(t *testing.T, limit int, period time.Duration) *core.TokenBucket {
	t.Helper()
	return core.Must(core.NewTokenBucket(core.TokenBucketOptions{Name: "bucket", TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: period}))
}

// answering is a third-party limiter.
type answering func(ctx context.Context) (core.Lease, error)

func (a answering) Acquire(ctx context.Context, _ int) (core.Lease, error) { return a(ctx) }

func (answering) TryAcquire(int) core.Lease { return core.Reject() }

func (answering) Available() int { return 0 }

func TestDefaultsAdmitAThousand(t *testing.T) {
	for name, o := range map[string]resilience.Options{
		"zero":         {},
		"with a queue": {Default: core.ConcurrencyLimiterOptions{Name: "own", QueueLimit: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := core.Must(resilience.New(o))
				defer many(s, resilience.DefaultPermits)()
				for range o.Default.QueueLimit {
					go func() { _ = s.Do(t.Context(), nothing) }()
				}
				synctest.Wait()
				err := s.Do(t.Context(), never(t))
				require.ErrorIs(t, err, core.ErrRejected)
			})
		})
	}
}

func TestResultsComeBackUnchanged(t *testing.T) {
	s := core.Must(resilience.Concurrency(1, 0))
	boom := errors.New("boom")
	assert.Same(t, boom, s.Do(t.Context(), func(context.Context) error { return boom }))
	for _, want := range []error{boom, nil} {
		v, err := resilience.Execute(t.Context(), s, func(context.Context) (int, error) { return 7, want })
		assert.Equal(t, 7, v)
		assert.Equal(t, want, err)
	}
	_, err := resilience.Execute(t.Context(), nil, func(context.Context) (int, error) { return 1, nil })
	assert.EqualError(t, err, "resilience: the strategy is nil")
}

// A function may end in any way: the permit is back.
func TestPermitComesBack(t *testing.T) {
	ends := map[string]func(context.Context) error{
		"return": nothing,
		"error":  func(context.Context) error { return errors.New("boom") },
		"panic":  func(context.Context) error { panic("boom") },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
	}
	for name, f := range ends {
		t.Run(name, func(t *testing.T) {
			s := core.Must(resilience.Concurrency(1, 0))
			runs := []func(){
				func() { _ = s.Do(t.Context(), f) },
				func() {
					_, _ = resilience.Execute(t.Context(), s, func(ctx context.Context) (int, error) { return 0, f(ctx) })
				},
			}
			for _, run := range runs {
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					run()
				})
				wg.Wait()
				require.NoError(t, s.Do(t.Context(), nothing))
			}
		})
	}
}

func TestDoneContextIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		s := core.Must(resilience.New(resilience.Options{
			Default:    core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1},
			OnRejected: func(context.Context, *resilience.RejectedError) { told++ },
		}))
		done, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, context.Canceled, s.Do(done, never(t)))

		defer occupied(s)()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, s.Do(late, never(t)))
		cause, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancelCause(errors.New("a cause")) })
		assert.Equal(t, context.Canceled, s.Do(cause, never(t)))
		assert.Zero(t, told)
		assert.NoError(t, s.Close())
		assert.Equal(t, context.Canceled, s.Do(done, never(t)))
	})
}

// Limiters of the user's own say in many ways that the context is done.
func TestDoneContextByWayOfALimiter(t *testing.T) {
	cause := errors.New("a cause")
	for name, limiter := range map[string]func(ctx context.Context) (core.Lease, error){
		"wrapped":   func(ctx context.Context) (core.Lease, error) { return core.Lease{}, fmt.Errorf("x: %w", ctx.Err()) },
		"its cause": func(ctx context.Context) (core.Lease, error) { return core.Lease{}, context.Cause(ctx) },
		"its lease": func(ctx context.Context) (core.Lease, error) { return core.Fail(ctx.Err()), nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			s := core.Must(resilience.New(resilience.Options{
				Limiter:    answering(func(ctx context.Context) (core.Lease, error) { cancel(cause); return limiter(ctx) }),
				OnRejected: func(context.Context, *resilience.RejectedError) { t.Error("told") },
			}))
			assert.Equal(t, context.Canceled, s.Do(ctx, never(t)))
		})
	}
}

func TestRejectionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		told := 0
		var r *resilience.RejectedError
		l := bucket(t, 1, time.Second)
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "GET /orders")
		s := core.Must(resilience.New(resilience.Options{
			Name:    "limit",
			Limiter: l,
			OnRejected: func(c context.Context, rejected *resilience.RejectedError) {
				assert.Equal(t, ctx, c)
				assert.Equal(t, "limit", rejected.Strategy)
				assert.Equal(t, time.Second, rejected.RetryAfter)
				assert.Contains(t, log.String(), `level=ERROR msg=rejected strategy=limit retry_after=1s`)
				told, r = told+1, rejected
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		require.NoError(t, s.Do(ctx, nothing))
		err := s.Do(ctx, never(t))
		assert.Equal(t, 1, told)
		assert.Same(t, r, err)
		assert.ErrorIs(t, err, core.ErrRejected)
		var inner *core.RejectedError
		require.ErrorAs(t, err, &inner)
		assert.Equal(t, "bucket", inner.Limiter)
		name, _ := core.LimiterName.From(r.Lease)
		assert.Equal(t, "bucket", name)
		assert.True(t, strings.HasPrefix(err.Error(), `resilience: limit: core: "bucket" rejected 1 permit`), err)
		time.Sleep(time.Second)
		require.NoError(t, s.Do(ctx, nothing))
	})
}

func TestWhatALimiterMaySay(t *testing.T) {
	boom := errors.New("boom")
	odd := core.Fail(fmt.Errorf("odd: %w", core.ErrRejected))
	released := 0
	for name, c := range map[string]struct {
		lease   core.Lease
		err     error
		refusal bool
		is      error
		retry   time.Duration
	}{
		"nothing at all":           {refusal: true, is: core.ErrRejected},
		"rejected, nil error":      {lease: core.Reject(core.RetryAfter.With(time.Second)), refusal: true, is: core.ErrRejected, retry: time.Second},
		"rejected, no lease":       {err: &core.RejectedError{RetryAfter: time.Minute}, refusal: true, is: core.ErrRejected, retry: time.Minute},
		"rejected, another lease":  {lease: core.Fail(boom), err: &core.RejectedError{RetryAfter: time.Hour}, refusal: true, is: core.ErrRejected, retry: time.Hour},
		"rejected, acquired lease": {lease: core.Grant(1, func() { released++ }), err: &core.RejectedError{RetryAfter: time.Hour}, refusal: true, is: core.ErrRejected, retry: time.Hour},
		"a negative RetryAfter":    {lease: core.Reject(core.RetryAfter.With(-time.Second)), refusal: true, is: core.ErrRejected},
		"an odd rejection":         {lease: odd, err: odd.Err(), refusal: true, is: core.ErrRejected},
		"an error":                 {err: boom, is: boom},
		"an error, acquired lease": {lease: core.Grant(1, func() { released++ }), err: boom, is: boom},
		"an error in the lease":    {lease: core.Fail(boom), is: boom},
		"closed":                   {lease: core.Fail(core.ErrClosed), is: core.ErrClosed},
		"too much":                 {err: core.ErrPermitsExceedLimit, is: core.ErrPermitsExceedLimit},
		"a context of its own":     {err: context.DeadlineExceeded, is: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			s := core.Must(resilience.New(resilience.Options{
				Limiter:    answering(func(context.Context) (core.Lease, error) { return c.lease, c.err }),
				OnRejected: func(context.Context, *resilience.RejectedError) { told++ },
			}))
			err := s.Do(t.Context(), never(t))
			require.ErrorIs(t, err, c.is)
			var r *resilience.RejectedError
			require.Equal(t, c.refusal, errors.As(err, &r))
			if !c.refusal {
				assert.Zero(t, told)
				assert.NotEqual(t, c.is, err, "it comes back wrapped")
				return
			}
			assert.Equal(t, 1, told)
			assert.Equal(t, c.retry, r.RetryAfter)
			assert.False(t, r.Lease.Acquired())
			assert.ErrorIs(t, r.Lease.Err(), core.ErrRejected)
			var inner *core.RejectedError
			require.ErrorAs(t, err, &inner)
			assert.Equal(t, c.retry, max(inner.RetryAfter, 0))
		})
	}
	assert.Equal(t, 2, released, "an error comes with no permits, even if the limiter thinks that it does")
}

func TestNestedRejectionKeepsItsStrategy(t *testing.T) {
	inner := core.Must(resilience.New(resilience.Options{Name: "inner", Limiter: bucket(t, 1, time.Hour)}))
	outer := core.Must(resilience.New(resilience.Options{Name: "outer"}))
	require.NoError(t, inner.Do(t.Context(), nothing))
	byFunction := outer.Do(t.Context(), func(ctx context.Context) error { return inner.Do(ctx, never(t)) })
	byLimiter := core.Must(resilience.New(resilience.Options{Name: "outer", Limiter: answering(func(ctx context.Context) (core.Lease, error) {
		return core.Lease{}, inner.Do(ctx, nothing)
	})})).Do(t.Context(), never(t))
	for _, err := range []error{byFunction, byLimiter} {
		var r *resilience.RejectedError
		require.ErrorAs(t, err, &r)
		assert.Equal(t, "inner", r.Strategy)
		assert.InDelta(t, time.Hour, r.RetryAfter, float64(time.Minute))
		_, ok := core.RetryAfter.From(r.Lease)
		assert.True(t, ok)
		assert.Equal(t, 1, strings.Count(err.Error(), "inner"), "it is named once: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	nilBucket := (*core.TokenBucket)(nil)
	for _, c := range []struct {
		make func() (*resilience.Strategy, error)
		want []string
	}{
		{func() (*resilience.Strategy, error) { return resilience.New(own(-1, -1)) }, []string{"PermitLimit = -1, want at least 1", "QueueLimit = -1, want at least 0"}},
		{func() (*resilience.Strategy, error) { return resilience.Concurrency(0, -1) }, []string{"PermitLimit = 0, want at least 1", "QueueLimit = -1"}},
		{func() (*resilience.Strategy, error) { return resilience.Limit(nil) }, []string{"limiter is nil"}},
		{func() (*resilience.Strategy, error) { return resilience.Limit(nilBucket) }, []string{"limiter is nil"}},
		{func() (*resilience.Strategy, error) { return resilience.New(resilience.Options{Limiter: nilBucket}) }, []string{"Options.Limiter", "limiter is nil"}},
	} {
		s, err := c.make()
		assert.Nil(t, s)
		for _, want := range c.want {
			assert.ErrorContains(t, err, want)
		}
	}
	_, err := resilience.New(resilience.Options{Limiter: core.Unlimited(), Default: core.ConcurrencyLimiterOptions{PermitLimit: -1}})
	assert.NoError(t, err, "Default is not looked at")
}

func TestZeroStrategyRefuses(t *testing.T) {
	var s resilience.Strategy
	assert.Equal(t, core.ErrClosed, s.Do(t.Context(), never(t)))
	assert.Equal(t, core.ErrClosed, s.Update(resilience.Options{}))
	assert.NoError(t, s.Close())
}
