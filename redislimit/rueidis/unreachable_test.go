package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/network"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

// A refused connection is an immediate failure.
func TestARefusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(t, 0)
		c, err := client.NewClient(client.ClientOption{
			InitAddress: []string{"near"}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1, // one connection
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return n.Dial(ctx, "tcp", addr)
			},
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		l, err := redislimit.New(core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 100}, redislimit.Options{Store: rueidis.New(c), Key: "key", Prefetch: 1})
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		n.Refuse.Store(true)
		n.Cut()
		synctest.Wait()
		for range 3 {
			start := time.Now()
			err := l.TryAcquire(1).Err()
			require.Zero(t, time.Since(start))
			require.ErrorIs(t, err, redislimit.ErrStore)
			time.Sleep(time.Millisecond)
		}
		require.ErrorIs(t, l.TryAcquire(1).Err(), syscall.ECONNREFUSED)
	})
}
