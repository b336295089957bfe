package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
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

// A connection that takes longer than a decision is made all the same, and kept, also after the server has closed it.
func TestAFarServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 40 * time.Millisecond // TCP and HELLO take more than a Budget of 50 ms
		n := network.New(t, roundTrip)
		c, err := client.NewClient(client.ClientOption{
			InitAddress: []string{"far"}, DisableCache: true, ForceSingleClient: true,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return n.Dial(ctx, "tcp", addr)
			},
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		run := repeat(t, rueidis.New(c))
		for range 3 {
			n.Cut()
			synctest.Wait()
			for range 100 { // of four connections each makes one at random
				_ = run()
			}
			for range 20 {
				start := time.Now()
				require.NoError(t, run())
				require.Equal(t, roundTrip, time.Since(start))
			}
		}
	})
}

// repeat has a limiter run its script on the store, and returns what runs it again, within 50 ms.
func repeat(t *testing.T, s redislimit.Store) func() error {
	t.Helper()
	first := &recorder{Store: s}
	l, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
		TokenBucketOptions: core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour},
		Shared:             redislimit.Shared{Store: first, Key: "key", Ahead: 1, Budget: time.Second},
	})
	require.NoError(t, err)
	require.NoError(t, l.TryAcquire(1).Err())
	require.NoError(t, l.Close())
	return func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Run(ctx, first.script, first.keys, first.args...)
		return err
	}
}

// recorder remembers the latest call.
type recorder struct {
	redislimit.Store

	script *redislimit.Script
	keys   []string
	args   []int64
}

func (r *recorder) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	r.script, r.keys, r.args = s, slices.Clone(keys), slices.Clone(args)
	return r.Store.Run(ctx, s, keys, args...)
}
