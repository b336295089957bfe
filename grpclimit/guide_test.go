package grpclimit_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// The programs of docs/grpc.md work.
func TestGuide(t *testing.T) {
	server, err := newServer()
	require.NoError(t, err)
	server.Stop()

	clients, err := perClient()
	require.NoError(t, err)
	atOnce := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10}))
	_, err = policies(clients, atOnce, core.Unlimited())
	require.NoError(t, err)

	photos, err := uploads()
	require.NoError(t, err)
	_, err = grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{photos}})
	require.NoError(t, err)

	conn, err := dial("passthrough:///server", atOnce, insecure.NewCredentials())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func newServer() (*grpc.Server, error) {
	bucket, err := core.NewTokenBucket(core.PerSecond(100, 20))
	if err != nil {
		return nil, err
	}
	limits, err := grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{{Name: "calls", Limiter: grpclimit.Shared(bucket)}},
		Skip:     grpclimit.HealthAndReflection,
	})
	if err != nil {
		return nil, err
	}
	return grpc.NewServer(limits.ServerOptions()...), nil
}

func perClient() (grpclimit.Limiter, error) {
	return partition.New(partition.Options[*grpclimit.Call, netip.Prefix]{
		Key: grpclimit.ByPeer(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 20)) },
	})
}

func policies(perClient grpclimit.Limiter, atOnce, searches core.Limiter) (*grpclimit.Limits, error) {
	return grpclimit.New(grpclimit.Options{
		Policies: []grpclimit.Policy{
			{Name: "per-client", Limiter: perClient},
			{Name: "at-once", Limiter: grpclimit.Shared(atOnce), MaxWait: 100 * time.Millisecond},
			{Name: "search", Limiter: grpclimit.Shared(searches), Methods: []string{"/shop.v1.Search/*"}},
		},
	})
}

func dial(target string, limiter core.Limiter, secure credentials.TransportCredentials) (*grpc.ClientConn, error) {
	client, err := grpclimit.NewClient(grpclimit.ClientOptions{
		Limiter:         grpclimit.Shared(limiter), // optional: calls wait for its permits
		HonorRetryAfter: true,
	})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target, append(client.DialOptions(), grpc.WithTransportCredentials(secure))...)
}

func uploads() (grpclimit.Policy, error) {
	bandwidth, err := core.NewTokenBucket(ioreader.PerSecond(1_000_000))
	return grpclimit.Policy{
		Name:         "uploads",
		Methods:      []string{"/shop.v1.Photos/Upload"},
		ReceiveBytes: grpclimit.Shared(bandwidth), // 1 MB/s for all streams together
	}, err
}
