//go:build unix

package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	client "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/adaptertest"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

func TestOnRealServers(t *testing.T) {
	adaptertest.Run(t, func(t *testing.T, to adaptertest.Servers) redislimit.Store {
		t.Helper()
		o := client.ClientOption{InitAddress: to.Addrs, DisableCache: true, Username: to.User, Password: to.Password}
		if to.Sentinel {
			o.Sentinel.MasterSet = realserver.SentinelName
		}
		if to.Hanging {
			o.ForceSingleClient, o.ConnWriteTimeout = true, 10*time.Minute
		}
		if to.Dial != nil {
			o.DialCtxFn = func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return to.Dial(ctx)
			}
		}
		c, err := client.NewClient(o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return rueidis.New(c)
	})
}
