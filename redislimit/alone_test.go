package redislimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// Callers that come while the store is asked travel together in the next call.
func TestCallersTravelTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
			time.Sleep(time.Millisecond)
			return next()
		})
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			takes(t, l, 1)
			require.Equal(t, time.Millisecond, time.Since(start))
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				takes(t, l, 1)
				require.Equal(t, 2*time.Millisecond, time.Since(start))
			})
		}
		wg.Wait()
		require.Equal(t, int64(2), s.store.runs.Load())
	})
}

// A context that may end is obeyed at once, whatever the store does.
func TestAcquireEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		s.store.answer(hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 3*time.Millisecond, time.Since(start))
		_, err = l.Acquire(context.Background(), 1) //nolint:usetesting // one that can't end
		require.ErrorIs(t, err, redislimit.ErrStore)
		require.Equal(t, 53*time.Millisecond, time.Since(start))
	})
}

// A store that refuses, and tells that the permits are there, is not asked again and again:
// that is a refusal, until one period is over.
func TestARefusalThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		build func(t *testing.T, o redislimit.StoreOptions) everything
		reply []int64
		retry time.Duration
	}{
		"bucket": {func(t *testing.T, o redislimit.StoreOptions) everything {
			t.Helper()
			return bucket(t, o, perSecond)
		}, []int64{0, 1e15, 0, 0, 1, 0, 0}, time.Second},
		"fixed": {func(t *testing.T, o redislimit.StoreOptions) everything {
			t.Helper()
			return fixed(t, o, core.FixedWindowOptions{PermitLimit: 5, Window: time.Second, QueueLimit: 5})
		}, []int64{0, 1e15, 1e6, 1e15 + 1e6, 1, 0, 0, 0, 0, 0}, time.Second},
		"sliding": {func(t *testing.T, o redislimit.StoreOptions) everything {
			t.Helper()
			return sliding(t, o, core.SlidingWindowOptions{PermitLimit: 5, Window: time.Second, SegmentsPerWindow: 4, QueueLimit: 5})
		}, []int64{0, 1e15, 1e6, 1e15 + 1e6, 1, 0, 0, 0, 0, 0}, 250 * time.Millisecond},
		"concurrency": {func(t *testing.T, o redislimit.StoreOptions) everything {
			t.Helper()
			return concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 5, QueueLimit: 5})
		}, []int64{0, 1e15, 0, 0, 1, 0, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := c.build(t, s.shared("key"))
				s.store.answer(func(_ context.Context, _ func() ([]int64, error)) ([]int64, error) {
					time.Sleep(10 * time.Microsecond)
					return c.reply, nil
				})
				start := time.Now()
				retry, ok := core.RetryAfter.From(refuses(t, l, 1))
				require.Equal(t, c.retry > 0, ok)
				require.Equal(t, c.retry, retry)
				require.Equal(t, 10*time.Microsecond, time.Since(start))
				require.Equal(t, int64(1), s.store.runs.Load())

				before := s.store.runs.Load()
				waits, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := l.Acquire(waits, 1)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, s.store.runs.Load()-before, int64(25), "once a period, or once a second")
			})
		})
	}
}

// A caller without a deadline waits as long as it takes.
func TestAcquireWithoutADeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), perSecond)
		takes(t, l, 5)
		start := time.Now()
		lease, err := l.Acquire(context.Background(), 2) //nolint:usetesting // one that can't end
		require.NoError(t, err)
		require.Equal(t, 2, lease.Permits())
		require.Equal(t, 2*time.Second, time.Since(start))

		c := concurrency(t, s.shared("leases"), core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
		held := takes(t, c, 1)
		time.AfterFunc(time.Second, held.Release)
		start = time.Now()
		theirs, err := c.Acquire(context.Background(), 1) //nolint:usetesting // one that can't end
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		theirs.Release()
		require.Equal(t, 1, c.Available())
	})
}
