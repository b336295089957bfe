//go:build unix

package adaptertest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// On a real server, a limiter decides as the one of core whose limit it shares, while no permits are returned with
// time.
func testDecidesAsCore(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onServer(t, connect, func(t *testing.T, _ *realserver.Server, store redislimit.Store) {
		for kind, limit := range map[string]core.Options{
			"concurrency": core.ConcurrencyLimiterOptions{PermitLimit: 5},
			"bucket":      core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 2, ReplenishmentPeriod: time.Hour},
			"fixed":       core.FixedWindowOptions{PermitLimit: 5, Window: 1000 * time.Hour},
			"sliding":     core.SlidingWindowOptions{PermitLimit: 5, Window: 1000 * time.Hour, SegmentsPerWindow: 4},
		} {
			t.Run(kind, func(t *testing.T) {
				local, random := core.Must(core.New(limit)), rand.New(rand.NewPCG(1, 2))
				remote := limiter(t, redislimit.Options{Store: store, Key: kind, Prefetch: 1, Timeout: patient}, limit)
				var ours, theirs []core.Lease
				for range 100 {
					n := random.IntN(5)
					a, b := local.TryAcquire(n), remote.TryAcquire(n)
					require.Equal(t, a.Acquired(), b.Acquired())
					ours, theirs = append(ours, a), append(theirs, b)
					switch i := random.IntN(len(ours)); random.IntN(4) {
					case 0:
						ours[i].Release()
						theirs[i].Release()
					case 1:
						a.Refund()
						b.Refund()
					case 2:
						ours[len(ours)-1], theirs[len(theirs)-1] = a.Settle(n+1), b.Settle(n+1)
					case 3:
						if r, ok := local.(core.Resetter); ok && random.IntN(3) == 0 {
							r.Reset()
							remote.Reset()
						}
					}
					require.Equal(t, local.Available(), remote.Available())
				}
			})
		}
	})
}

// The script is loaded again if the server does not have it.
func testScriptFlush(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onServer(t, connect, func(t *testing.T, s *realserver.Server, store redislimit.Store) {
		c := s.Client()
		defer c.Close()
		l := limiter(t, redislimit.Options{Store: store, Key: "key", Timeout: patient, Prefetch: 1},
			core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		takes(t, l, 1)
		require.NoError(t, c.ScriptFlush(t.Context()).Err())
		takes(t, l, 1)
		require.Equal(t, 98, l.Available())
	})
}

// Whatever the server does, Unavailable decides, and the limit holds again when the server is back.
func testFaults(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	type fault struct {
		name       string
		start, end func(t *testing.T, s *realserver.Server, c *redis.Client)
	}
	signal := func(signal os.Signal) func(*testing.T, *realserver.Server, *redis.Client) {
		return func(_ *testing.T, s *realserver.Server, _ *redis.Client) { s.Signal(signal) }
	}
	set := func(maxMemory string) func(*testing.T, *realserver.Server, *redis.Client) {
		return func(t *testing.T, _ *realserver.Server, c *redis.Client) {
			t.Helper()
			require.NoError(t, c.ConfigSet(t.Context(), "maxmemory", maxMemory).Err())
		}
	}
	faults := []fault{
		{"SIGSTOP", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{
			"restart without data",
			func(_ *testing.T, s *realserver.Server, _ *redis.Client) { s.Kill() },
			func(_ *testing.T, s *realserver.Server, _ *redis.Client) { s.Restart() },
		},
		{"out of memory", set("1"), set("0")},
	}
	onServer(t, connect, func(t *testing.T, s *realserver.Server, store redislimit.Store) {
		c := s.Client()
		defer c.Close()
		for i, f := range faults {
			local, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 2, Window: time.Hour})
			require.NoError(t, err)
			var up atomic.Bool
			up.Store(true)
			l := limiter(t, redislimit.Options{
				Store: store, Key: "key" + strconv.Itoa(i), Unavailable: redislimit.UseLocal, Local: local, Prefetch: 1,
			}, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
			stop := redislimit.Watch(store, func(is bool, _ error) { up.Store(is) })
			served := func() {
				t.Helper()
				require.Eventually(t, func() bool { return l.TryAcquire(1).Acquired() && up.Load() && l.Available() > 2 }, 4*patient, 20*time.Millisecond, f.name)
			}
			served()
			local.Reset()
			granted := 0
			f.start(t, s, c)
			for range 20 {
				granted += l.TryAcquire(1).Permits()
			}
			require.Equal(t, 2, granted, f.name)
			f.end(t, s, c)
			served()
			stop()
		}
	})
}
