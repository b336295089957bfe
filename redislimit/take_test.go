package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// Each request states its key and limit, and nothing is kept.
func ExampleTake() {
	store, stop := start()
	defer stop()
	for _, user := range []string{"ann", "ann", "bob"} {
		lease, err := redislimit.Take(context.Background(), store, "user:"+user, core.Every(time.Hour, 1), 1)
		fmt.Println(user, lease.Acquired(), errors.Is(err, core.ErrRejected))
	}
	// Output:
	// ann true false
	// ann false true
	// bob true false
}

// Take takes from the limit that limiters with the key share, in one call each.
func TestTake(t *testing.T) {
	for _, kind := range []string{"bucket", "fixed", "sliding", "concurrency"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := ofKind(t, kind, s.shared("key"), 5)
				limits := map[string]core.Options{
					"bucket":      core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Minute},
					"fixed":       core.FixedWindowOptions{PermitLimit: 5, Window: time.Minute},
					"sliding":     core.SlidingWindowOptions{PermitLimit: 5, Window: time.Minute, SegmentsPerWindow: 4},
					"concurrency": core.ConcurrencyLimiterOptions{PermitLimit: 5},
				}
				takes(t, l, 1)
				before := s.store.runs.Load()
				lease, err := redislimit.Take(t.Context(), s.store, "key", limits[kind], 3)
				require.NoError(t, err)
				require.Equal(t, 3, lease.Permits())
				rejected, err := redislimit.Take(t.Context(), s.store, "key", limits[kind], 2)
				require.ErrorIs(t, err, core.ErrRejected)
				require.Equal(t, err, rejected.Err())
				retry, ok := core.RetryAfter.From(rejected)
				require.Equal(t, kind != "concurrency", ok && retry > 0)
				require.Equal(t, before+2, s.store.runs.Load())
				require.Equal(t, 1, l.Available())
				lease = lease.Settle(1)
				require.Equal(t, 3, l.Available())
				lease.Refund()
				require.Equal(t, 4, l.Available())
			})
		})
	}
}

// Take follows the rules of a Limiter: invalid arguments, a context that is done and an unreachable store are errors, and the breaker is
// that of the store.
func TestTakeFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		limit := core.PerSecond(5, 5)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for want, take := range map[error]func() (core.Lease, error){
			core.ErrNegativePermits:    func() (core.Lease, error) { return redislimit.Take(t.Context(), s.store, "key", limit, -1) },
			core.ErrPermitsExceedLimit: func() (core.Lease, error) { return redislimit.Take(t.Context(), s.store, "key", limit, 6) },
			context.Canceled:           func() (core.Lease, error) { return redislimit.Take(done, s.store, "key", limit, 1) },
		} {
			lease, err := take()
			require.ErrorIs(t, err, want)
			require.Equal(t, err, lease.Err())
		}
		_, err := redislimit.Take(t.Context(), nil, "", nil, 1)
		require.ErrorContains(t, err, "Options.Store = nil")
		require.ErrorContains(t, err, "Options.Key")
		require.Zero(t, s.store.runs.Load())

		s.store.answer(hangs)
		start := time.Now()
		for range 10 {
			lease, err := redislimit.Take(t.Context(), s.store, "key", limit, 1)
			require.ErrorIs(t, err, redislimit.ErrStore)
			require.Equal(t, err, lease.Err())
		}
		require.Equal(t, 150*time.Millisecond, time.Since(start), "three decisions take 50 ms, all others no time")
		time.Sleep(time.Minute)
	})
}
