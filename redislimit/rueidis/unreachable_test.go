package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/network"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

// A refused connection is a failure at once: a policy that fails open lets requests pass, also if they would not wait as
// long as the Timeout.
func TestFailOpenWhileConnectionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(t, 0)
		var refuse atomic.Bool
		c, err := client.NewClient(client.ClientOption{
			InitAddress: []string{"near"}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1, // one connection
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				if refuse.Load() {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
				}
				return n.Dial(ctx, "tcp", addr)
			},
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		l, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
			TokenBucketOptions: core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 100},
			Shared:             redislimit.StoreOptions{Store: rueidis.New(c), Key: "key", Prefetch: 1},
		})
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		limits, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{
			Limiter: httplimit.Shared(l), MaxWait: 20 * time.Millisecond, FailOpen: true,
		}})
		require.NoError(t, err)
		h := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		refuse.Store(true)
		n.Cut()
		synctest.Wait()
		for range 10 {
			start := time.Now()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			require.Equal(t, http.StatusOK, w.Code)
			require.Zero(t, time.Since(start))
		}
		lease := l.TryAcquire(1)
		require.ErrorIs(t, lease.Err(), redislimit.ErrStore)
		require.ErrorIs(t, lease.Err(), syscall.ECONNREFUSED)
	})
}
