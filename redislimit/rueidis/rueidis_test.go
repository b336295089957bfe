package rueidis_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	client "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

// A subscription has a connection of its own, because some servers, such as miniredis, run no scripts on one that is subscribed.
func TestScriptsRunDuringASubscription(t *testing.T) {
	m := miniredis.RunT(t)
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	store := rueidis.New(c)
	heard := make(chan struct{}, 1)
	stop, err := store.Subscribe(t.Context(), "{key}:limit:released", func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	require.NoError(t, err)
	l, err := redislimit.New(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1}, redislimit.Options{Store: store, Key: "key", Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	lease := l.TryAcquire(1)
	require.NoError(t, lease.Err())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		next, err := l.Acquire(ctx, 1)
		next.Release()
		waited <- err
	}()
	for l.Statistics().Queued == 0 && ctx.Err() == nil {
		l.Available()
	}
	lease.Release()
	require.NoError(t, <-waited)
	m.Publish("{key}:limit:released", "")
	select {
	case <-heard:
	case <-ctx.Done():
		require.Fail(t, "no message arrives")
	}
	m.SetError("MISCONF anything") // to an UNSUBSCRIBE rueidis would panic
	stop()
}

// An error that the server replies with is a refusal.
func TestARefusal(t *testing.T) {
	m := miniredis.RunT(t)
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{m.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	m.SetError("OOM no memory is left")
	l, err := redislimit.New(core.PerSecond(1, 1), redislimit.Options{Store: rueidis.New(c), Key: "key", Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrRefused)
}
