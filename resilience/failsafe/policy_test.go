package failsafe_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
	sluice "github.com/sluice-go/sluice/resilience/failsafe"
)

var errBoom = errors.New("boom")

func concurrency(t *testing.T, permits, queue int) (*resilience.Strategy, *core.ConcurrencyLimiter) {
	t.Helper()
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue}))
	s := core.Must(resilience.Limit(l))
	return s, l
}

// hourly admits one execution an hour.
func hourly(t *testing.T) *resilience.Strategy {
	t.Helper()
	l := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	s := core.Must(resilience.Limit(l))
	return s
}

func TestResultsComeBack(t *testing.T) {
	s, l := concurrency(t, 1, 0)
	executor := failsafe.With(sluice.Policy[int](s))
	v, err := executor.Get(func() (int, error) {
		assert.Zero(t, l.Available())
		return 7, nil
	})
	assert.Equal(t, 7, v)
	require.NoError(t, err)
	_, err = executor.Get(func() (int, error) { return 8, errBoom })
	assert.Equal(t, errBoom, err)
	assert.Panics(t, func() { _, _ = executor.Get(func() (int, error) { panic("boom") }) })
	assert.Equal(t, 1, l.Available())
}

func TestARefusalIsTheResult(t *testing.T) {
	s, l := concurrency(t, 1, 0)
	lease := l.TryAcquire(1)
	failures := 0
	executor := failsafe.With(sluice.Policy[int](s)).OnFailure(func(failsafe.ExecutionDoneEvent[int]) { failures++ })
	_, err := executor.Get(func() (int, error) {
		t.Error("the function ran")
		return 0, nil
	})
	var r *resilience.RejectedError
	require.ErrorAs(t, err, &r)
	assert.ErrorIs(t, err, core.ErrRejected)
	assert.Equal(t, 1, failures)
	lease.Release()
	_, err = executor.Get(func() (int, error) { return 0, nil })
	assert.NoError(t, err)
}

// A retry outside sees the refusal, and waits for as long as the limiter says; each attempt
// takes a permit of its own.
func TestRetryOutsideWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hourly(t)
		var refused []error
		retry := retrypolicy.NewBuilder[string]().
			WithMaxRetries(3).
			WithDelayFunc(sluice.RetryAfter[string]).
			OnRetry(func(e failsafe.ExecutionEvent[string]) { refused = append(refused, e.LastError()) }).
			Build()
		executor := failsafe.With(retry, sluice.Policy[string](s))
		start, runs := time.Now(), 0
		run := func() (string, error) {
			runs++
			return "page", nil
		}
		for range 2 {
			v, err := executor.Get(run)
			require.NoError(t, err)
			assert.Equal(t, "page", v)
		}
		assert.Equal(t, time.Hour, time.Since(start))
		assert.Equal(t, 2, runs)
		require.Len(t, refused, 1)
		assert.ErrorIs(t, refused[0], core.ErrRejected)
	})
}

// A circuit breaker inside sees no rejections, only the work that it protects.
func TestCircuitBreakerInside(t *testing.T) {
	s, l := concurrency(t, 1, 0)
	breaker := circuitbreaker.NewBuilder[int]().WithFailureThreshold(2).WithDelay(time.Hour).Build()
	executor := failsafe.With(sluice.Policy[int](s), breaker)
	lease := l.TryAcquire(1)
	for range 5 {
		_, err := executor.Get(func() (int, error) { return 0, nil })
		require.ErrorIs(t, err, core.ErrRejected)
	}
	assert.True(t, breaker.IsClosed())
	lease.Release()
	for range 2 {
		_, err := executor.Get(func() (int, error) { return 0, errBoom })
		require.Equal(t, errBoom, err)
	}
	_, err := executor.Get(func() (int, error) { return 0, nil })
	require.ErrorIs(t, err, circuitbreaker.ErrOpen)
	assert.Equal(t, 1, l.Available(), "the permit is back, though the breaker refused")
}

// What other policies do with the work, and with the wait for a permit, costs no permit in the end.
func TestOtherPolicies(t *testing.T) {
	blocked := func(exec failsafe.Execution[int]) (int, error) {
		if exec.IsHedge() {
			return 2, nil
		}
		<-exec.Canceled()
		return 1, exec.Context().Err()
	}
	fails := func(failsafe.Execution[int]) (int, error) { return 1, errBoom }
	retry := retrypolicy.NewBuilder[int]().WithMaxRetries(2).ReturnLastFailure().Build()
	hedge := hedgepolicy.NewBuilderWithDelay[int](time.Second).Build()
	late := timeout.New[int](time.Second)
	type policies = []failsafe.Policy[int]
	for name, c := range map[string]struct {
		outside, inside policies
		run             func(failsafe.Execution[int]) (int, error)
		held            int // of 2, by another caller
		err             error
		granted         uint64
	}{
		"a retry inside keeps the permit":                    {nil, policies{retry}, fails, 0, errBoom, 1},
		"each attempt of a retry outside takes one":          {policies{retry}, nil, fails, 0, errBoom, 3},
		"a timeout outside ends the wait, and is the result": {policies{late}, nil, blocked, 2, timeout.ErrExceeded, 0},
		"hedges outside take one each":                       {policies{hedge}, nil, blocked, 0, nil, 2},
		"hedges inside run under one":                        {nil, policies{hedge}, blocked, 1, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, l := concurrency(t, 2, 1)
				lease := l.TryAcquire(c.held)
				all := slices.Concat(c.outside, policies{sluice.Policy[int](s)}, c.inside)
				start := time.Now()
				v, err := failsafe.With(all...).GetWithExecution(c.run)
				require.ErrorIs(t, err, c.err)
				if err == nil {
					require.Equal(t, 2, v)
				}
				require.LessOrEqual(t, time.Since(start), time.Second)
				synctest.Wait()
				lease.Release()
				require.Equal(t, core.Statistics{Limit: 2, Available: 2, Granted: c.granted + 1}, l.Statistics())
			})
		})
	}
}

// The permit of hedges inside is back when the first of them has a result: what it gave up on may still run.
func TestHedgeInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := concurrency(t, 1, 0)
		hedge := hedgepolicy.NewBuilderWithDelay[int](time.Second).Build()
		goOn := make(chan struct{})
		v, err := failsafe.With(sluice.Policy[int](s), hedge).GetWithExecution(func(exec failsafe.Execution[int]) (int, error) {
			if exec.IsHedge() {
				return 2, nil
			}
			<-goOn
			return 1, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 2, v)
		assert.Equal(t, 1, l.Available(), "although an attempt still runs")
		close(goOn)
	})
}

// An execution that is canceled while it waits has the result that it is canceled with.
func TestCanceledExecutions(t *testing.T) {
	for want, byResult := range map[error]bool{context.Canceled: false, failsafe.ErrExecutionCanceled: true} {
		synctest.Test(t, func(t *testing.T) {
			s, l := concurrency(t, 1, 1)
			lease := l.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var done error
			executor := failsafe.With(sluice.Policy[int](s)).WithContext(ctx).
				OnDone(func(e failsafe.ExecutionDoneEvent[int]) { done = e.Error })
			result := executor.GetAsync(func() (int, error) { return 1, nil })
			synctest.Wait()
			assert.Equal(t, 1, l.Statistics().Queued)
			if byResult {
				result.Cancel()
			} else {
				cancel()
			}
			_, err := result.Get()
			require.ErrorIs(t, err, want)
			synctest.Wait()
			require.ErrorIs(t, done, want)
			lease.Release()
			assert.Equal(t, 1, l.Available())
		})
	}
}

func TestRetryAfterOfOtherFailures(t *testing.T) {
	var delays []time.Duration
	retry := retrypolicy.NewBuilder[int]().WithMaxRetries(1).WithDelay(time.Nanosecond).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[int]) time.Duration {
			delays = append(delays, sluice.RetryAfter(e))
			return sluice.RetryAfter(e)
		}).Build()
	_, _ = failsafe.With(retry).Get(func() (int, error) { return 0, errBoom })
	s, l := concurrency(t, 1, 0) // which does not report when to retry
	defer l.TryAcquire(1).Release()
	_, _ = failsafe.With(retry, sluice.Policy[int](s)).Get(func() (int, error) { return 0, nil })
	assert.Equal(t, []time.Duration{-1, -1}, delays)
}

// In whatever order things end: no permit is lost.
func TestStressPolicy(t *testing.T) {
	s, l := concurrency(t, 3, 2)
	retry := retrypolicy.NewBuilder[int]().WithMaxRetries(2).Build()
	executor := failsafe.With(retry, timeout.New[int](time.Millisecond), sluice.Policy[int](s))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				_, _ = executor.GetWithExecution(func(exec failsafe.Execution[int]) (int, error) {
					if (g+i)%50 == 0 {
						<-exec.Canceled()
					}
					return i, nil
				})
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 3, l.Available())
	assert.Zero(t, l.Statistics().Queued)
}

// The strategy's Settle learns what became of the execution.
func TestSettleSeesTheFailure(t *testing.T) {
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	var seen []error
	s := core.Must(resilience.New(resilience.Options{Limiter: l, Settle: func(_ context.Context, err error) int {
		seen = append(seen, err)
		return -1
	}}))
	executor := failsafe.With(sluice.Policy[int](s))
	v, err := executor.Get(func() (int, error) { return 7, errBoom })
	assert.Equal(t, 7, v)
	require.Equal(t, errBoom, err)
	_, err = executor.Get(func() (int, error) { return 8, nil })
	require.NoError(t, err)
	assert.Equal(t, []error{errBoom, nil}, seen)
	assert.Equal(t, 1, l.Available())
}
