package limitertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// recorder is a test that records its errors, and ends when end is called.
type recorder struct {
	testing.TB // nil: a call of anything else is a panic
	cleanups   []func()
	errors     []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

// end runs the cleanups and returns the errors.
func (r *recorder) end() []string {
	for _, cleanup := range slices.Backward(r.cleanups) {
		cleanup()
	}
	r.cleanups = nil
	return r.errors
}

// limitless is a Reporter that reports no limit.
type limitless struct{ core.Limiter }

func (l limitless) Statistics() core.Statistics { return core.Statistics{Available: l.Available()} }

func TestNoLeaks(t *testing.T) {
	type view = func(l core.Limiter) core.Limiter // of a concurrency limiter of 5 permits
	const of5, notReleased = "2 of 5 permits were not released", "2 permits were not released"
	for name, tt := range map[string]struct {
		view view
		want string // "": a lease that is out is no leak
	}{
		"concurrency limiter": {func(l core.Limiter) core.Limiter { return l }, "0 (*core.ConcurrencyLimiter): " + of5},
		"behind a reason": {func(l core.Limiter) core.Limiter {
			return core.WithReason(l, "full")
		}, "0 (*core.ConcurrencyLimiter): " + of5},
		"in a chain behind a reason": {func(l core.Limiter) core.Limiter {
			rate := bucket(0, core.OldestFirst, false)
			return core.WithReason(must(core.Chain(core.WithReason(rate, "spent"), core.WithReason(l, "full"))), "not now")
		}, "1 (*core.ConcurrencyLimiter): " + of5},
		"without other interfaces, behind a reason": {func(l core.Limiter) core.Limiter {
			return core.WithReason(struct{ core.Limiter }{l}, "full")
		}, "0 (struct { core.Limiter }): " + notReleased},
		"in a chain": {func(l core.Limiter) core.Limiter {
			return must(core.Chain(core.Unlimited(), l))
		}, "1 (*core.ConcurrencyLimiter): " + of5},
		"in a chain with a rate": {func(l core.Limiter) core.Limiter {
			return must(core.Chain(l, bucket(0, core.OldestFirst, false)))
		}, "0 (*core.ConcurrencyLimiter): " + of5},
		"an Idler": {func(l core.Limiter) core.Limiter {
			return struct {
				core.Limiter
				core.Idler
			}{l, l.(core.Idler)}
		}, "0 (struct { core.Limiter; core.Idler }) is not idle: a lease was not released"},
		"without other interfaces": {func(l core.Limiter) core.Limiter {
			return struct{ core.Limiter }{l}
		}, "0 (struct { core.Limiter }): " + notReleased},
		"a Reporter without a limit": {func(l core.Limiter) core.Limiter { return limitless{l} }, "0 (limitertest_test.limitless): " + notReleased},
		"bucket":                     {func(core.Limiter) core.Limiter { return bucket(0, core.OldestFirst, false) }, ""},
		"window":                     {func(core.Limiter) core.Limiter { return fixed(0, core.OldestFirst, true) }, ""},
		"unlimited":                  {func(core.Limiter) core.Limiter { return core.Unlimited() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, test := tt.view(concurrency(0, core.OldestFirst)), new(recorder)
			limitertest.NoLeaks(test, l)
			l.TryAcquire(1).Release()
			require.Empty(t, test.end())

			limitertest.NoLeaks(test, l)
			lease := l.TryAcquire(2)
			require.True(t, lease.Acquired())
			require.Empty(t, test.errors, "before the test ends")
			if got := test.end(); tt.want == "" {
				require.Empty(t, got)
			} else {
				require.Equal(t, []string{"limitertest: limiter " + tt.want}, got)
			}
			lease.Release()
		})
	}
}

func TestNoLeaksTellsWhichOfMany(t *testing.T) {
	test := new(recorder)
	a, b := concurrency(0, core.OldestFirst), concurrency(0, core.OldestFirst)
	limitertest.NoLeaks(test, a, bucket(0, core.OldestFirst, false), b)
	b.TryAcquire(1)
	require.Equal(t, []string{"limitertest: limiter 2 (*core.ConcurrencyLimiter): 1 of 5 permits were not released"}, test.end())
}

// A rate limiter's leases hold nothing, but who waits in its queue was forgotten.
func TestNoLeaksFindsWhoStillWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, test := bucket(queue, core.OldestFirst, false), new(recorder)
		limitertest.NoLeaks(test, l)
		l.TryAcquire(limit)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { _, _ = l.Acquire(ctx, 3) }()
		synctest.Wait()
		require.Equal(t, []string{"limitertest: limiter 0 (*core.TokenBucket): 3 permits still wait in the queue"}, test.end())
	})
}

func TestNoLeaksOfNothing(t *testing.T) {
	test := new(recorder)
	limitertest.NoLeaks(test)
	require.Empty(t, test.end())

	limitertest.NoLeaks(test, core.Unlimited(), nil)
	require.Equal(t, []string{"limitertest: NoLeaks limiter 1 is nil"}, test.end())
}
