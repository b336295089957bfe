package failsafe_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/migrate/failsafe/after"
	"github.com/sluice-go/sluice/docs/migrate/failsafe/before"
	"github.com/sluice-go/sluice/docs/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/resilience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func found(context.Context) (string, error) { return "found", nil }

// Both let the same searches through, to the instant.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewExecutor()
		is, err := after.NewExecutor()
		require.NoError(t, err)
		arrivals.Compare(t, arrivals.Random(1000, 400*time.Millisecond), func() bool {
			result, err := before.Search(t.Context(), was, found)
			if err != nil {
				require.ErrorIs(t, err, ratelimiter.ErrExceeded)
			}
			return result == "found"
		}, func() bool {
			result, err := after.Search(t.Context(), is, found)
			if err != nil {
				var rejected *resilience.RejectedError
				require.ErrorAs(t, err, &rejected)
				require.Positive(t, rejected.RetryAfter)
			}
			return result == "found"
		})
	})
}

// A smooth limiter decides as a window of one permit does: two may pass on both sides of a boundary. A bucket of one token keeps
// its distance.
func TestSmooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		smooth := ratelimiter.NewSmooth[string](10, time.Second)
		window := core.Must(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1, Window: 100 * time.Millisecond}))
		bucket := core.Must(core.NewTokenBucket(core.Every(100*time.Millisecond, 1)))
		arrivals.Compare(t, arrivals.Random(1000, 60*time.Millisecond), smooth.TryAcquirePermit,
			func() bool { return window.TryAcquire(1).Acquired() })

		last := time.Now().Add(-time.Hour)
		for _, gap := range arrivals.Random(1000, 60*time.Millisecond) {
			time.Sleep(gap)
			if bucket.TryAcquire(1).Acquired() {
				require.GreaterOrEqual(t, time.Since(last), 100*time.Millisecond)
				last = time.Now()
			}
		}
	})
}

// At most 10 run at a time in both. One more waits: for 2 seconds before, for as long as its context allows after.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewExecutor()
		is, err := after.NewExecutor()
		require.NoError(t, err)
		hold := make(chan struct{})
		slow := func(context.Context) (string, error) { <-hold; return "found", nil }
		var running sync.WaitGroup
		for range 10 {
			running.Go(func() { _, _ = before.Search(t.Context(), was, slow) })
			running.Go(func() { _, _ = after.Search(t.Context(), is, slow) })
		}
		synctest.Wait()
		start := time.Now()
		_, err = before.Search(t.Context(), was, found)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.Equal(t, 2*time.Second, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = after.Search(ctx, is, found)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 4*time.Second, time.Since(start))
		close(hold)
		running.Wait()
	})
}

// A panic keeps the permit of a bulkhead for good; here it comes back.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := func(context.Context) (string, error) { panic("boom") }
		was := before.NewExecutor()
		is, err := after.NewExecutor()
		require.NoError(t, err)
		for range 10 {
			require.Panics(t, func() { _, _ = before.Search(t.Context(), was, boom) })
			require.Panics(t, func() { _, _ = after.Search(t.Context(), is, boom) })
		}
		_, err = before.Search(t.Context(), was, found)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		result, err := after.Search(t.Context(), is, found)
		require.NoError(t, err)
		require.Equal(t, "found", result)
	})
}
