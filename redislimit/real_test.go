//go:build unix

package redislimit_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

// stores returns a store of each adapter on real servers at the addresses.
func stores(t *testing.T, addrs ...string) map[string]redislimit.Store {
	t.Helper()
	return storesOf(t, "", "", addrs...)
}

// storesOf is stores for a user.
func storesOf(t *testing.T, user, password string, addrs ...string) map[string]redislimit.Store {
	t.Helper()
	g := goredisclient.NewUniversalClient(&goredisclient.UniversalOptions{
		Addrs: addrs, IsClusterMode: len(addrs) > 1, ContextTimeoutEnabled: true, DisableIdentity: true, DialerRetries: 1,
		Username: user, Password: password,
	})
	t.Cleanup(func() { g.Close() })
	r, err := rueidisclient.NewClient(rueidisclient.ClientOption{
		InitAddress: addrs, DisableCache: true, Username: user, Password: password,
	})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return map[string]redislimit.Store{"go-redis": goredis.New(g), "rueidis": rueidis.New(r)}
}

// onReal runs a test for each server program and each adapter.
func onReal(t *testing.T, test func(t *testing.T, s *realserver.Server, store redislimit.Store)) {
	t.Helper()
	for _, program := range realserver.Programs(t) {
		for _, adapter := range []string{"go-redis", "rueidis"} {
			t.Run(filepath.Base(program)+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				s := realserver.Start(t, program)
				test(t, s, stores(t, s.Addr)[adapter])
			})
		}
	}
}

// patient is a Timeout for tests on a busy machine.
const patient = 5 * time.Second

// On a real server, a limiter decides as the one of core whose limit it shares, while no permits come back with time.
func TestDecidesAsCoreOnARealServer(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, _ *realserver.Server, store redislimit.Store) {
		for _, kind := range []string{"concurrency", "bucket", "fixed", "sliding"} {
			t.Run(kind, func(t *testing.T) {
				l, _ := conforming(kind, 5, 0, core.OldestFirst, time.Hour)
				local, random := l.(everything), rand.New(rand.NewPCG(1, 2))
				remote := core.Must(redislimit.New(optionsOf(l), redislimit.Options{Store: store, Key: kind, Prefetch: 1, Timeout: patient}))
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
						if r, ok := l.(core.Resetter); ok && random.IntN(3) == 0 {
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
func TestScriptFlushAndKilledConnections(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, s *realserver.Server, store redislimit.Store) {
		c := s.Client()
		defer c.Close()
		l := bucket(t, redislimit.Options{Store: store, Key: "key", Timeout: patient, Prefetch: 1},
			core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		takes(t, l, 1)
		require.NoError(t, c.ScriptFlush(t.Context()).Err())
		takes(t, l, 1)
		require.Equal(t, 98, l.Available())
		for range 5 {
			require.NoError(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
			l.TryAcquire(1) // it may fail, and may count as taken
		}
		require.Eventually(t, func() bool { return l.TryAcquire(1).Acquired() }, patient, 10*time.Millisecond)
		require.GreaterOrEqual(t, l.Available(), 98-5-int(patient/(10*time.Millisecond)))
	})
}

// Whatever the server does, Unavailable decides, and the limit holds again when the server is back.
func TestFaults(t *testing.T) {
	t.Parallel()
	type fault struct {
		name       string
		start, end func(t *testing.T, s *realserver.Server, c *goredisclient.Client)
	}
	signal := func(signal os.Signal) func(*testing.T, *realserver.Server, *goredisclient.Client) {
		return func(_ *testing.T, s *realserver.Server, _ *goredisclient.Client) { s.Signal(signal) }
	}
	set := func(maxMemory string) func(*testing.T, *realserver.Server, *goredisclient.Client) {
		return func(t *testing.T, _ *realserver.Server, c *goredisclient.Client) {
			t.Helper()
			require.NoError(t, c.ConfigSet(t.Context(), "maxmemory", maxMemory).Err())
		}
	}
	faults := []fault{
		{"SIGSTOP", signal(syscall.SIGSTOP), signal(syscall.SIGCONT)},
		{
			"restart without data",
			func(_ *testing.T, s *realserver.Server, _ *goredisclient.Client) { s.Kill() },
			func(_ *testing.T, s *realserver.Server, _ *goredisclient.Client) { s.Restart() },
		},
		{"out of memory", set("1"), set("0")},
	}
	onReal(t, func(t *testing.T, s *realserver.Server, store redislimit.Store) {
		c := s.Client()
		defer c.Close()
		for i, f := range faults {
			local, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 2, Window: time.Hour})
			require.NoError(t, err)
			var up atomic.Bool
			up.Store(true)
			l := bucket(t, redislimit.Options{
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

// A store that is a cluster follows a slot that moves.
func TestClusterMovesASlot(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		nodes := realserver.Cluster(t, program)
		addrs := make([]string, 0, len(nodes))
		for _, n := range nodes {
			addrs = append(addrs, n.Addr)
		}
		for name, store := range stores(t, addrs...) {
			t.Run(filepath.Base(program)+"/"+name, func(t *testing.T) {
				t.Parallel()
				key := "moved " + name
				l := bucket(t, redislimit.Options{Store: store, Key: key, Timeout: patient, Prefetch: 1}, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
				takes(t, l, 4)
				realserver.MoveSlot(t, nodes, "{"+key+"}:limit")
				takes(t, l, 5)
				require.Equal(t, 1, l.Available())
				refuses(t, l, 2)
				c := concurrency(t, redislimit.Options{Store: store, Key: key + "'s leases", Timeout: patient}, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
				other := concurrency(t, redislimit.Options{Store: store, Key: key + "'s leases", Timeout: patient}, core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1})
				lease := takes(t, c, 1)
				time.AfterFunc(100*time.Millisecond, lease.Release)
				theirs, err := other.Acquire(t.Context(), 1)
				require.NoError(t, err)
				theirs.Release()
			})
		}
	}
}

// Several clients, as of several processes, together are never granted more than the limit in any window of the server's clock, and
// never hold more. A grant happens between two readings of the server's time, so only grants whose two readings are in one window
// count for that window.
func TestManyClients(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		s := realserver.Start(t, program)
		c := s.Client()
		t.Cleanup(func() { c.Close() })
		const limit, window, holders = 50, 200 * time.Millisecond, 4
		number := func() int64 {
			now, err := c.Time(t.Context()).Result()
			if err != nil {
				t.Error(err)
			}
			return now.UnixNano() / int64(window)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		var mu sync.Mutex
		granted := map[string]int64{} // by the kind and the window
		var held, most atomic.Int64
		var callers sync.WaitGroup
		for range 2 {
			for _, store := range stores(t, s.Addr) {
				shared := func(key string) redislimit.Options {
					return redislimit.Options{Store: store, Key: key, Timeout: patient}
				}
				leases := concurrency(t, shared("leases"), core.ConcurrencyLimiterOptions{PermitLimit: holders, QueueLimit: 100})
				for kind, l := range map[string]core.Limiter{
					"fixed":   fixed(t, shared("fixed"), core.FixedWindowOptions{PermitLimit: limit, Window: window}),
					"sliding": sliding(t, shared("sliding"), core.SlidingWindowOptions{PermitLimit: limit, Window: window, SegmentsPerWindow: 10}),
				} {
					for range 4 {
						callers.Go(func() {
							for ctx.Err() == nil {
								before := number()
								if l.TryAcquire(3).Acquired() && number() == before {
									mu.Lock()
									granted[kind+strconv.FormatInt(before, 10)] += 3
									mu.Unlock()
								}
								if lease, err := leases.Acquire(ctx, 1); err == nil {
									atLeast(&most, held.Add(1))
									held.Add(-1)
									lease.Release()
								}
							}
						})
					}
				}
			}
		}
		callers.Wait()
		require.NotEmpty(t, granted)
		for window, n := range granted {
			require.LessOrEqual(t, n, int64(limit), window)
		}
		require.Positive(t, most.Load())
		require.LessOrEqual(t, most.Load(), int64(holders))
	}
}
