package redisrate_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/docs/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/docs/migrate/redisrate/after"
	"github.com/sluice-go/sluice/docs/migrate/redisrate/before"
	"github.com/sluice-go/sluice/redislimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compare runs a test with both on one Redis in memory, whose clock is the bubble's.
func compare(t *testing.T, test func(t *testing.T, was *before.Limits, is *after.Limits, server *miniredis.Miniredis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		defer server.Close()
		client := redis.NewClient(&redis.Options{
			Addr:                     "memory",
			Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			DisableIdentity:          true,
			Protocol:                 2,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer func() { _ = client.Close() }()
		test(t, before.NewLimits(client), after.NewLimits(client), server)
	})
}

// The same calls are granted. Only the instants are whole milliseconds, as redis_rate counts in
// floating-point numbers.
func TestSameCalls(t *testing.T) {
	compare(t, func(t *testing.T, was *before.Limits, is *after.Limits, _ *miniredis.Miniredis) {
		gaps := arrivals.Random(1000, 5*time.Second)
		for i := range gaps {
			gaps[i] = gaps[i].Truncate(time.Millisecond) + 123*time.Microsecond
		}
		arrivals.Compare(t, gaps,
			func() bool { _, ok, err := was.Try(t.Context(), "ann"); require.NoError(t, err); return ok },
			func() bool { _, ok, err := is.Try(t.Context(), "ann"); require.NoError(t, err); return ok },
		)
	})
}

// Both say when to ask again.
func TestRetryAfter(t *testing.T) {
	compare(t, func(t *testing.T, was *before.Limits, is *after.Limits, _ *miniredis.Miniredis) {
		for range 10 {
			_, ok, err := was.Try(t.Context(), "ann")
			require.NoError(t, err)
			require.True(t, ok)
			_, ok, err = is.Try(t.Context(), "ann")
			require.NoError(t, err)
			require.True(t, ok)
		}
		time.Sleep(2 * time.Second)
		d, ok, err := was.Try(t.Context(), "ann")
		require.NoError(t, err)
		require.False(t, ok)
		require.InDelta(t, 4*time.Second, d, float64(time.Microsecond))
		d, ok, err = is.Try(t.Context(), "ann")
		require.NoError(t, err)
		require.False(t, ok)
		require.Equal(t, 4*time.Second, d)
	})
}

// Without the server, both return an error.
func TestServerAway(t *testing.T) {
	compare(t, func(t *testing.T, was *before.Limits, is *after.Limits, server *miniredis.Miniredis) {
		server.SetError("LOADING")
		_, _, err := was.Try(t.Context(), "ann")
		require.Error(t, err)
		_, _, err = is.Try(t.Context(), "ann")
		require.ErrorIs(t, err, redislimit.ErrStore)
		server.SetError("")
	})
}
