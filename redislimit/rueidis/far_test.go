package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
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

// A connection that takes longer than a decision is completed, and kept. That is also so after the server has closed it.
func TestAFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 40 * time.Millisecond // TCP and HELLO take more than a Timeout of 50 ms
		n := network.New(t, roundTrip)
		c, err := client.NewClient(client.ClientOption{
			InitAddress: []string{"far"}, DisableCache: true, ForceSingleClient: true,
			Dialer: net.Dialer{KeepAlive: 24 * time.Hour}, // no ping: a request that meets one waits for two round trips
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return n.Dial(ctx, "tcp", addr)
			},
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		l, err := redislimit.New(core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: rueidis.New(c), Key: "key", Prefetch: 1})
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		for range 3 {
			n.Cut()
			synctest.Wait()
			for range 50 { // of four connections each makes one at random
				l.TryAcquire(1)
				time.Sleep(5 * time.Second)
			}
			for range 20 {
				start := time.Now()
				require.NoError(t, l.TryAcquire(1).Err())
				require.Equal(t, roundTrip, time.Since(start))
			}
		}
	})
}
