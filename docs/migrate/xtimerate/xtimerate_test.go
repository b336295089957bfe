package xtimerate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/docs/migrate/xtimerate/after"
	"github.com/sluice-go/sluice/docs/migrate/xtimerate/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
		arrivals.Compare(t, arrivals.Random(10_000, 40*time.Millisecond),
			func() bool { _, ok := before.Try(was); return ok },
			func() bool { _, ok := after.Try(is); return ok },
		)
	})
}

// Both say when to ask again, x/time/rate to the nanosecond or so.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
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
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
		starts := func(wait func() error) []time.Duration {
			begin := time.Now()
			var at []time.Duration
			for range 100 {
				require.NoError(t, wait())
				at = append(at, time.Since(begin))
			}
			return at
		}
		want := starts(func() error { return before.Wait(t.Context(), was) })
		require.Equal(t, want, starts(func() error { return after.Wait(t.Context(), is) }))
		require.Equal(t, 95*50*time.Millisecond, want[99])
	})
}

// A deadline before the call's turn ends both waits at once. Only one says so to errors.Is.
func TestDeadlineTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err = before.Wait(ctx, was)
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		err = after.Wait(ctx, is)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, begin, time.Now())
	})
}

// A waiting call that is cancelled leaves its turn to the calls behind it only here.
func TestCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		waited := func(wait func(context.Context) error) time.Duration {
			begin := time.Now()
			first, cancel := context.WithCancel(t.Context())
			go func() { _ = wait(first) }()
			synctest.Wait()
			second := make(chan time.Duration)
			go func() { _ = wait(t.Context()); second <- time.Since(begin) }()
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
	synctest.Test(t, func(t *testing.T) {
		was := before.NewLimiter()
		is, err := after.NewLimiter()
		require.NoError(t, err)
		require.True(t, was.AllowN(time.Now(), 5))
		require.True(t, is.TryAcquire(5).Acquired())
		begin := time.Now()
		wasAt, isAt := make(chan time.Duration, 2), make(chan time.Duration, 2)
		for range 2 {
			go func() { _ = before.Wait(t.Context(), was); wasAt <- time.Since(begin) }()
			go func() { _ = after.Wait(t.Context(), is); isAt <- time.Since(begin) }()
		}
		synctest.Wait()
		before.Slow(was)
		require.NoError(t, after.Slow(is))
		require.Equal(t, 50*time.Millisecond, <-wasAt)
		require.Equal(t, 100*time.Millisecond, <-wasAt)
		require.Equal(t, 50*time.Millisecond, <-isAt, "the token that is under way comes when it would have")
		require.Equal(t, 150*time.Millisecond, <-isAt)
	})
}
