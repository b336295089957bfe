package xtimerate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/docs/migrate/xtimerate/after"
	"github.com/sluice-go/sluice/docs/migrate/xtimerate/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compare runs a test with a limiter of before and one of after, in a bubble.
func compare(t *testing.T, test func(t *testing.T, was *rate.Limiter, is *core.TokenBucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		is, err := after.NewLimiter()
		require.NoError(t, err)
		test(t, before.NewLimiter(), is)
	})
}

func TestTry(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		arrivals.Compare(t, arrivals.Random(10_000, 40*time.Millisecond),
			func() bool { _, ok := before.Try(was); return ok },
			func() bool { _, ok := after.Try(is); return ok },
		)
	})
}

// Both say when to ask again, x/time/rate to the nanosecond or so.
func TestRetryAfter(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		for range 5 {
			before.Try(was)
			after.Try(is)
		}
		time.Sleep(30 * time.Millisecond)
		for _, try := range []func() (time.Duration, bool){
			func() (time.Duration, bool) { return before.Try(was) },
			func() (time.Duration, bool) { return after.Try(is) },
		} {
			retryAfter, ok := try()
			require.False(t, ok)
			require.Equal(t, 20*time.Millisecond, retryAfter)
		}
	})
}

// Calls that wait start at the same instants.
func TestWait(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		starts := func(wait func() error) []time.Duration {
			start := time.Now()
			var at []time.Duration
			for range 100 {
				require.NoError(t, wait())
				at = append(at, time.Since(start))
			}
			return at
		}
		want := starts(func() error { return before.Wait(t.Context(), was) })
		require.Equal(t, want, starts(func() error { return after.Wait(t.Context(), is) }))
		require.Equal(t, 95*50*time.Millisecond, want[99])
	})
}

// A deadline before the call's turn ends both waits immediately. Only one says so to errors.Is.
func TestDeadlineTooSoon(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := before.Wait(ctx, was)
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		err = after.Wait(ctx, is)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, start, time.Now())
	})
}

// A waiting call that is cancelled leaves its turn to the calls behind it only here.
func TestCancelledCall(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		waited := func(wait func(context.Context) error) time.Duration {
			start := time.Now()
			first, cancel := context.WithCancel(t.Context())
			go func() { _ = wait(first) }()
			synctest.Wait()
			second := make(chan time.Duration)
			go func() { _ = wait(t.Context()); second <- time.Since(start) }()
			synctest.Wait()
			cancel()
			return <-second
		}
		require.Equal(t, 100*time.Millisecond, waited(func(ctx context.Context) error { return before.Wait(ctx, was) }))
		time.Sleep(time.Second)
		require.True(t, is.TryAcquire(5).Acquired(), "full again")
		require.Equal(t, 50*time.Millisecond, waited(func(ctx context.Context) error { return after.Wait(ctx, is) }))
	})
}

// A changed rate applies to the calls that are waiting only here.
func TestSlow(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		start := time.Now()
		wasAt, isAt := make(chan time.Duration, 2), make(chan time.Duration, 2)
		for range 2 {
			go func() { _ = before.Wait(t.Context(), was); wasAt <- time.Since(start) }()
			go func() { _ = after.Wait(t.Context(), is); isAt <- time.Since(start) }()
		}
		synctest.Wait()
		before.Slow(was)
		require.NoError(t, after.Slow(is))
		require.Equal(t, 50*time.Millisecond, <-wasAt)
		require.Equal(t, 100*time.Millisecond, <-wasAt)
		require.Equal(t, 50*time.Millisecond, <-isAt, "the next token comes when it would have")
		require.Equal(t, 150*time.Millisecond, <-isAt)
	})
}

// After a change of the rate the next token comes sooner here than there.
func TestNextCallAfterSlow(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		before.Slow(was)
		require.NoError(t, after.Slow(is))
		start := time.Now()
		require.NoError(t, after.Wait(t.Context(), is))
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.NoError(t, before.Wait(t.Context(), was))
		require.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}

// Calls that are planned start at the same instants, also after the latest one was canceled.
func TestLater(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		starts := func(later func(func()) func()) []time.Duration {
			start := time.Now()
			at := make(chan time.Duration)
			call := func() { at <- time.Since(start) }
			for range 10 {
				later(call)
			}
			later(func() { t.Error("it was canceled") })()
			for range 10 {
				later(call)
			}
			var starts []time.Duration
			for range 20 {
				starts = append(starts, <-at)
			}
			return starts
		}
		want := starts(func(f func()) func() { return before.Later(was, f) })
		require.Equal(t, 15*50*time.Millisecond, want[19])
		require.Equal(t, want, starts(func(f func()) func() { return after.Later(is, f) }))
	})
}

// If a call in the middle is canceled, only here the next one to be planned starts sooner.
func TestLaterCanceledInTheMiddle(t *testing.T) {
	compare(t, func(t *testing.T, was *rate.Limiter, is *core.TokenBucket) {
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		last := func(later func(func()) func()) time.Duration {
			start := time.Now()
			cancel := later(func() { t.Error("it was canceled") })
			later(func() {})
			cancel()
			started := make(chan time.Duration)
			later(func() { started <- time.Since(start) })
			return <-started
		}
		require.Equal(t, 150*time.Millisecond, last(func(f func()) func() { return before.Later(was, f) }))
		time.Sleep(time.Second)
		require.True(t, is.TryAcquire(5).Acquired(), "full again")
		require.Equal(t, 100*time.Millisecond, last(func(f func()) func() { return after.Later(is, f) }))
	})
}

// Limits of Inf and 0 are a Switch over Unlimited and Paused. Only with the Switch do calls that wait follow.
func TestInfAndZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, err := after.NewLimiter()
		require.NoError(t, err)
		was, is := before.NewLimiter(), core.NewSwitch(bucket)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()

		was.SetLimit(0)
		is.Set(core.Paused())
		require.True(t, was.AllowN(time.Now(), 5), "the tokens in the bucket can be taken")
		require.False(t, is.TryAcquire(1).Acquired())
		require.Error(t, before.Wait(ctx, was), "no token would come before the deadline")
		released := make(chan time.Duration)
		start := time.Now()
		go func() {
			_, err := is.Acquire(ctx, 1)
			assert.NoError(t, err)
			released <- time.Since(start)
		}()
		time.Sleep(time.Second)

		was.SetLimit(rate.Inf)
		is.Set(core.Unlimited())
		require.Equal(t, time.Second, <-released)
		require.True(t, was.AllowN(time.Now(), 1000))
		require.True(t, is.TryAcquire(1000).Acquired())

		require.False(t, new(rate.Limiter).Allow(), "the zero Limiter admits nothing")
	})
}

// Fractions are read back as they were given.
func TestFractions(t *testing.T) {
	require.InEpsilon(t, 0.5, core.Rate(0.5, 1).Rate(), 1e-9)
	require.InEpsilon(t, float64(rate.Every(3*time.Second)), core.Every(3*time.Second, 1).Rate(), 1e-9)
}
