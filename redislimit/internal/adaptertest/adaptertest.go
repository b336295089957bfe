//go:build unix

// Package adaptertest tests an adapter of a Redis client on real servers.
package adaptertest

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// Connect returns a store of the adapter, whose client ends with the test.
type Connect func(t *testing.T, to Servers) redislimit.Store

// Servers are what a client connects to.
type Servers struct {
	Addrs    []string // several: a cluster
	Sentinel bool     // they are sentinels, of the primary realserver.SentinelName
	User     string
	Password string
	Dial     func(ctx context.Context) (net.Conn, error) // nil means that the client dials Addrs
	Hanging  bool                                        // the client does not notice by itself that a connection hangs
}

// Run runs all tests.
func Run(t *testing.T, connect Connect) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, connect Connect){
		"DecidesAsCore":                       testDecidesAsCore,
		"ScriptFlush":                         testScriptFlush,
		"Faults":                              testFaults,
		"FailoverForgetsWhatWasNotReplicated": testFailoverForgetsWhatWasNotReplicated,
		"FailoverUnderLoad":                   testFailoverUnderLoad,
		"AClustersFailover":                   testAClustersFailover,
		"ASilentNodeOfACluster":               testASilentNodeOfACluster,
		"KilledConnectionsUnderLoad":          testKilledConnectionsUnderLoad,
		"ReshardingUnderLoad":                 testReshardingUnderLoad,
		"EvictedKeysUnderLoad":                testEvictedKeysUnderLoad,
		"Permissions":                         testPermissions,
		"ALostSubscription":                   testALostSubscription,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect) })
	}
}

// patient is a Timeout for tests on a busy machine.
const patient = 5 * time.Second

// onPrograms runs a test for each server program.
func onPrograms(t *testing.T, test func(t *testing.T, program string)) {
	t.Helper()
	for _, program := range realserver.Programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

// onServer runs a test on a server of each program.
func onServer(t *testing.T, connect Connect, test func(t *testing.T, s *realserver.Server, store redislimit.Store)) {
	t.Helper()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		s := realserver.Start(t, program)
		test(t, s, connect(t, Servers{Addrs: []string{s.Addr}}))
	})
}

// onCluster runs a test on a cluster of each program.
func onCluster(t *testing.T, connect Connect, test func(t *testing.T, program string, nodes []*realserver.Server, store redislimit.Store)) {
	t.Helper()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		nodes := realserver.Cluster(t, program, "--cluster-require-full-coverage", "no")
		addrs := make([]string, len(nodes))
		for i, n := range nodes {
			addrs[i] = n.Addr
		}
		test(t, program, nodes, connect(t, Servers{Addrs: addrs}))
	})
}

// limiter returns a limiter that ends with the test.
func limiter(t *testing.T, o redislimit.Options, limit core.Options) *redislimit.Limiter {
	t.Helper()
	l, err := redislimit.New(limit, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// takes finds that the permits are there, and takes them.
func takes(t *testing.T, l core.Limiter, permits int) core.Lease {
	t.Helper()
	lease := l.TryAcquire(permits)
	require.NoError(t, lease.Err())
	require.Equal(t, permits, lease.Permits())
	return lease
}

// rejects finds that the permits are not there.
func rejects(t *testing.T, l core.Limiter, permits int) {
	t.Helper()
	require.ErrorIs(t, l.TryAcquire(permits).Err(), core.ErrRejected)
}
