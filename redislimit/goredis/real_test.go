//go:build unix

package goredis_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/redislimit/internal/adaptertest"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

func TestOnRealServers(t *testing.T) {
	adaptertest.Run(t, func(t *testing.T, to adaptertest.Servers) redislimit.Store {
		t.Helper()
		o := &redis.UniversalOptions{
			Addrs: to.Addrs, IsClusterMode: len(to.Addrs) > 1, Username: to.User, Password: to.Password,
			ContextTimeoutEnabled: !to.Sentinel, DisableIdentity: true, DialerRetries: 1,
		}
		if to.Sentinel {
			o.MasterName = realserver.SentinelName
		}
		if to.Dial != nil {
			o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return to.Dial(ctx) }
		}
		c := redis.NewUniversalClient(o)
		t.Cleanup(func() { c.Close() })
		return goredis.New(c)
	})
}
