//go:build unix

package adaptertest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// process is what one of several processes shares: a limiter of each kind. No permits of the rate limits are returned by
// themselves.
type process struct {
	store  redislimit.Store
	rates  map[string]*redislimit.Limiter
	leases *redislimit.Limiter
}

const (
	processes   = 3
	chaosLimit  = 5_000 // chaos limit of each rate
	chaosLeases = 5
	chaosTTL    = 3 * time.Second // a lease whose reply or release is lost ends after that
)

// startProcesses returns processes with stores of their own.
func startProcesses(t *testing.T, connect Connect, to Servers) []process {
	t.Helper()
	all := make([]process, processes)
	anchor := time.Now().Add(-time.Hour)
	for i := range all {
		store := connect(t, to)
		o := func(kind string) redislimit.Options {
			return redislimit.Options{Store: store, Key: "key " + kind, Timeout: time.Second, TTL: chaosTTL, Prefetch: 1 + 4*i}
		}
		all[i] = process{store: store, rates: map[string]*redislimit.Limiter{
			"bucket":  limiter(t, o("bucket"), core.TokenBucketOptions{TokenLimit: chaosLimit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour}),
			"fixed":   limiter(t, o("fixed"), core.FixedWindowOptions{PermitLimit: chaosLimit, Window: 1000 * time.Hour, Anchor: anchor}),
			"sliding": limiter(t, o("sliding"), core.SlidingWindowOptions{PermitLimit: chaosLimit, Window: 1000 * time.Hour, SegmentsPerWindow: 3_600_000, Anchor: anchor}),
		}}
		all[i].leases = limiter(t, o("leases"), core.ConcurrencyLimiterOptions{PermitLimit: chaosLeases, QueueLimit: 100})
	}
	return all
}

// chaos counts what the callers of all processes have.
type chaos struct {
	kept       map[string]*atomic.Int64 // kept of each rate: permits that were granted, minus those that were given back
	grants     atomic.Int64
	held, most atomic.Int64
}

// run has callers of all processes take, wait, settle, give up and release until stop is called.
func (c *chaos) run(t *testing.T, all []process) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.kept = map[string]*atomic.Int64{}
	for kind := range all[0].rates {
		c.kept[kind] = new(atomic.Int64)
	}
	var callers sync.WaitGroup
	for i, p := range all {
		for kind, l := range p.rates {
			for caller := range 2 {
				random := rand.New(rand.NewPCG(uint64(i), uint64(caller)))
				callers.Go(func() {
					for ctx.Err() == nil {
						lease := l.TryAcquire(1 + random.IntN(3))
						c.kept[kind].Add(int64(lease.Permits()))
						c.grants.Add(int64(lease.Permits()))
						if lease.Acquired() && random.IntN(4) == 0 { // it may return less, or be lost
							c.kept[kind].Add(-int64(lease.Permits()))
							lease.Refund()
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
		}
		for caller := range 3 {
			random := rand.New(rand.NewPCG(uint64(i), uint64(caller)))
			callers.Go(func() {
				for ctx.Err() == nil {
					within, done := context.WithTimeout(ctx, time.Duration(1+random.IntN(50))*time.Millisecond)
					lease, err := p.leases.Acquire(within, 1)
					if err == nil {
						held := redislimit.Context(ctx, lease)
						atLeast(&c.most, c.held.Add(1))
						select {
						case <-held.Done(): // it is lost
						case <-time.After(time.Millisecond):
						}
						c.held.Add(-1)
						c.grants.Add(1)
						lease.Release()
					}
					done()
				}
			})
		}
	}
	return func() {
		cancel()
		callers.Wait()
	}
}

// check finds that no more was granted than the limits, and that what was not kept is there again, except for what was lost with replies.
func (c *chaos) check(t *testing.T, all []process) {
	t.Helper()
	require.Positive(t, c.grants.Load())
	require.LessOrEqual(t, c.most.Load(), int64(chaosLeases))
	require.Eventually(t, func() bool { return all[0].leases.Available() == chaosLeases }, 12*patient, 50*time.Millisecond, "all leases are back")
	for kind, kept := range c.kept {
		for _, p := range all {
			require.NoError(t, p.rates[kind].Close()) // returns what is prefetched
		}
		require.LessOrEqual(t, kept.Load(), int64(chaosLimit), kind)
	}
}

// left finds that the rates have not more than what was not kept. It asks by limiters of its own.
func (c *chaos) left(t *testing.T, fresh []process) {
	t.Helper()
	for kind, kept := range c.kept {
		var got int
		require.Eventually(t, func() bool {
			got = fresh[0].rates[kind].Available()
			return fresh[0].rates[kind].TryAcquire(0).Err() == nil
		}, 12*patient, 50*time.Millisecond)
		require.LessOrEqual(t, int64(got), chaosLimit-kept.Load(), kind)
	}
}

// underLoad has callers of three processes take and wait until test, which harms the server, returns. Then it finds that the limits hold, if
// the server forgot what the waiters had as often as test says.
func underLoad(t *testing.T, connect Connect, to Servers, test func(c *chaos, w *waiters, all []process) (forgot int64)) (c *chaos, all []process) {
	t.Helper()
	all, c = startProcesses(t, connect, to), new(chaos)
	stores := []redislimit.Store{}
	for _, p := range all {
		stores = append(stores, p.store)
	}
	w := newWaiters(t, stores)
	stop, served := c.run(t, all), w.run(t)
	forgot := test(c, w, all)
	stop()
	served()
	w.check(t, forgot, false)
	return c, all
}

// Connections of three processes are killed again and again. What was lost with a reply counts as taken, and nothing is granted twice.
func testKilledConnectionsUnderLoad(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onAdmin(t, func(t *testing.T, admin *redis.Client, to Servers) {
		t.Helper()
		c, all := underLoad(t, connect, to, func(*chaos, *waiters, []process) int64 {
			for range 40 {
				time.Sleep(50 * time.Millisecond)
				for _, kind := range []string{"normal", "pubsub"} {
					require.NoError(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Err())
				}
			}
			return 0
		})
		c.check(t, all)
		c.left(t, startProcesses(t, connect, to))
	})
}

// onAdmin runs a test on a server of each program, with a client that harms it.
func onAdmin(t *testing.T, test func(t *testing.T, admin *redis.Client, to Servers)) {
	t.Helper()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		s := realserver.Start(t, program)
		admin := s.Client()
		defer func() { _ = admin.Close() }() // it was only to harm
		test(t, admin, Servers{Addrs: []string{s.Addr}})
	})
}

// The slot of the limits moves from master to master while three processes take from them.
func testReshardingUnderLoad(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		nodes := realserver.Cluster(t, program)
		to := Servers{}
		for _, n := range nodes {
			to.Addrs = append(to.Addrs, n.Addr)
		}
		c, all := underLoad(t, connect, to, func(*chaos, *waiters, []process) int64 {
			for range 4 {
				for _, key := range []string{"key bucket", "key fixed", "key sliding", "key leases", "wait bucket", "wait fixed", "wait sliding"} {
					key = "{" + key + "}:limit"
					require.Eventually(t, func() bool { return exists(t, nodes, key) }, 12*patient, time.Millisecond)
					realserver.MoveSlot(t, nodes, key)
				}
			}
			return 0
		})
		c.check(t, all)
		c.left(t, startProcesses(t, connect, to))
	})
}

// exists reports whether a node has the key.
func exists(t *testing.T, nodes []*realserver.Server, key string) bool {
	t.Helper()
	for _, n := range nodes {
		c := n.Client()
		found, err := c.Exists(t.Context(), key).Result()
		_ = c.Close() // it was only to ask
		if err == nil && found == 1 {
			return true
		}
	}
	return false
}

// The server drops each key of each kind, one by one, while processes take and wait. A limit starts again then; nothing hangs or fails, and
// in the end the whole limit can be taken, and no more.
func testEvictedKeysUnderLoad(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onAdmin(t, func(t *testing.T, admin *redis.Client, to Servers) {
		t.Helper()
		limits := []string{"{key bucket}:limit", "{key fixed}:limit", "{key sliding}:limit", "{key leases}:limit"}
		rest := []string{"{key fixed}:segments", "{key sliding}:segments", "{key leases}:leases"} // they go with their limits
		drop := func(key string) {
			t.Helper()
			require.Eventually(t, func() bool { return admin.Del(t.Context(), key).Val() == 1 }, 12*patient, time.Millisecond, key)
		}
		const rounds = 5
		_, all := underLoad(t, connect, to, func(c *chaos, w *waiters, _ []process) int64 {
			for range rounds {
				for _, key := range slices.Concat(limits, rest) {
					drop(key)
					before := c.grants.Load()
					require.Eventually(t, func() bool { return c.grants.Load() > before }, 12*patient, time.Millisecond)
				}
				for _, key := range w.keys() {
					drop(key)
				}
			}
			return 2 * rounds // no rate has more than two keys
		})
		require.Eventually(t, func() bool { return all[0].leases.Available() == chaosLeases }, 12*patient, 50*time.Millisecond)
		takes(t, all[0].leases, chaosLeases).Release()
		require.NoError(t, admin.Del(t.Context(), limits...).Err())
		for kind, l := range all[0].rates {
			for _, p := range all[1:] {
				require.NoError(t, p.rates[kind].Close())
			}
			require.NoError(t, l.TryReset())
			takes(t, l, chaosLimit)
			rejects(t, l, 1)
		}
	})
}
