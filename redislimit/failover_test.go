//go:build unix

package redislimit_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
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

// replicated waits until the replica has all that the primary has written so far.
func replicated(t *testing.T, primary *realserver.Server) {
	t.Helper()
	c := primary.Client()
	defer c.Close()
	conn := c.Conn() // WAIT is about what its own connection has written, and all before that
	defer conn.Close()
	require.NoError(t, conn.Set(t.Context(), "written", 1, 0).Err())
	n, err := conn.Wait(t.Context(), 1, time.Minute).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// switched returns a store whose client dials whichever server the address names.
func switched(t *testing.T, addr *atomic.Pointer[string]) redislimit.Store {
	t.Helper()
	c := goredisclient.NewClient(&goredisclient.Options{
		Addr: "switched", DisableIdentity: true, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, *addr.Load())
		},
	})
	t.Cleanup(func() { c.Close() })
	return goredis.New(c)
}

func token(t *testing.T, l core.Lease) uint64 {
	t.Helper()
	n, ok := redislimit.FencingToken.From(l)
	require.True(t, ok)
	return n
}

// What the new primary does not know of passes again, and no more than that: here all that
// was granted between the replica's last write and the primary's end.
func TestFailoverForgetsWhatWasNotReplicated(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			const limit, leases = 100, 4
			primary := realserver.Start(t, program)
			replica := realserver.Replica(t, program, primary)
			var addr atomic.Pointer[string]
			addr.Store(&primary.Addr)
			o := redislimit.StoreOptions{Store: switched(t, &addr), Key: "rate", Timeout: patient, Prefetch: 1, TTL: 9 * time.Second}
			rate := bucket(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour})
			o.Key = "leases"
			held := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: leases})
			waiting := concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: leases, QueueLimit: leases})

			takes(t, rate, 40)
			kept := takes(t, held, 2)
			keptCtx := redislimit.Context(t.Context(), kept)
			replicated(t, primary)
			promoted := replica.Client()
			defer promoted.Close()
			require.NoError(t, promoted.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
			takes(t, rate, 10)
			lost := takes(t, held, 1)
			lostCtx := redislimit.Context(t.Context(), lost)
			waiter := make(chan error, 1)
			go func() {
				lease, err := waiting.Acquire(t.Context(), leases)
				lease.Release()
				waiter <- err
			}()
			require.Eventually(t, func() bool { return waiting.Statistics().Queued == leases }, patient, time.Millisecond)

			primary.Kill()
			addr.Store(&replica.Addr)
			require.Eventually(t, func() bool { return rate.TryAcquire(1).Acquired() }, 2*patient, 20*time.Millisecond)
			require.Equal(t, limit-40-1, rate.Available(), "40 are known, 10 are not")
			takes(t, rate, limit-40-1)
			refuses(t, rate, 1)

			var again core.Lease // with the lost one, one more than the limit until its holder renews it
			require.Eventually(t, func() bool {
				again = held.TryAcquire(leases - 2)
				return again.Acquired()
			}, 2*patient, 20*time.Millisecond)
			refuses(t, held, 1)
			require.Greater(t, token(t, again), token(t, lost))
			<-lostCtx.Done()
			require.Equal(t, redislimit.ErrLeaseLost, context.Cause(lostCtx))
			require.NoError(t, keptCtx.Err())
			lost.Release()
			require.Zero(t, held.Available(), "it has nothing to return")
			kept.Release()
			again.Release()
			require.NoError(t, <-waiter)
		})
	}
}

// failover is a primary under load, its replica, and the sentinel that a client asks.
type failover struct {
	primary, replica, sentinel *realserver.Server
	store                      redislimit.Store
	rates                      []*redislimit.TokenBucket
	leases                     []*redislimit.ConcurrencyLimiter

	granted, denied, held, most atomic.Int64
	mu                          sync.Mutex
	tokens                      [2][]uint64 // before the failover, and after
}

// The primary is killed under load, and Sentinel promotes the replica.
func TestFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		for _, adapter := range []string{"go-redis", "rueidis"} {
			t.Run(filepath.Base(program)+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				f := &failover{primary: realserver.Start(t, program)}
				f.replica = realserver.Replica(t, program, f.primary)
				f.sentinel = realserver.Sentinel(t, program, f.primary, 0)
				f.store = sentinelStores[adapter](t, f.sentinel.Addr)
				f.test(t)
			})
		}
	}
}

// sentinelStores has a store of each adapter that finds its server by a sentinel.
var sentinelStores = map[string]func(t *testing.T, sentinel string) redislimit.Store{
	"go-redis": func(t *testing.T, sentinel string) redislimit.Store {
		t.Helper()
		c := goredisclient.NewFailoverClient(&goredisclient.FailoverOptions{
			MasterName: realserver.SentinelName, SentinelAddrs: []string{sentinel}, DisableIdentity: true, DialerRetries: 1,
		})
		t.Cleanup(func() { c.Close() })
		return goredis.New(c)
	},
	"rueidis": func(t *testing.T, sentinel string) redislimit.Store {
		t.Helper()
		c, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: []string{sentinel}, DisableCache: true, Sentinel: rueidisclient.SentinelOption{MasterSet: realserver.SentinelName},
		})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return rueidis.New(c)
	},
}

const failoverRate, failoverLeases = 4000, 3

func (f *failover) build(t *testing.T, store redislimit.Store, budget, ttl time.Duration) (*redislimit.TokenBucket, *redislimit.ConcurrencyLimiter) {
	t.Helper()
	o := redislimit.StoreOptions{Store: store, Key: "rate", Timeout: budget, TTL: ttl, Prefetch: 1}
	rate := bucket(t, o, core.TokenBucketOptions{TokenLimit: failoverRate, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour})
	o.Key = "leases"
	return rate, concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: failoverLeases, QueueLimit: failoverLeases})
}

func (f *failover) test(t *testing.T) {
	t.Helper()
	for range 3 { // as of three processes
		rate, leases := f.build(t, f.store, 0, 5*time.Second) // a lease whose reply or release is lost ends after that
		f.rates, f.leases = append(f.rates, rate), append(f.leases, leases)
	}
	_, holder := f.build(t, f.store, patient, time.Minute)
	kept := takes(t, holder, 2)
	f.held.Add(2)
	keptCtx := redislimit.Context(t.Context(), kept)
	replicated(t, f.primary)
	waiter := make(chan error, 1)
	go func() {
		lease, err := holder.Acquire(t.Context(), failoverLeases)
		lease.Release()
		waiter <- err
	}()

	stop := make(chan struct{})
	ended := f.load(t, 0, stop)
	require.Eventually(t, func() bool { return f.granted.Load() > failoverRate/4 }, 4*patient, time.Millisecond)
	f.primary.Kill()
	denied := f.denied.Load()
	require.Eventually(t, func() bool { return f.denied.Load() > denied+100 }, 4*patient, time.Millisecond)
	close(stop)
	ended.Wait()
	before := f.granted.Load()
	f.replica.AwaitInfo("master_link_status:down") // it has read all that the primary has sent
	rate, _ := f.build(t, stores(t, f.replica.Addr)["go-redis"], patient, 0)
	known := failoverRate - int64(rate.Available())
	require.Positive(t, known)

	stop = make(chan struct{})
	ended = f.load(t, 1, stop)
	f.sentinel.Failover()
	f.replica.AwaitInfo("role:master")
	require.Eventually(t, func() bool {
		lease := rate.TryAcquire(1)
		if lease.Acquired() {
			f.granted.Add(1)
		}
		return errors.Is(lease.Err(), core.ErrRejected)
	}, 12*patient, time.Millisecond, "the rest is granted")
	f.mu.Lock()
	leased := len(f.tokens[1])
	f.mu.Unlock()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.tokens[1]) > leased+10
	}, 12*patient, time.Millisecond, "leases are granted again")
	close(stop)
	ended.Wait()

	after := f.granted.Load() - before
	require.LessOrEqual(t, after, failoverRate-known, "permits that the new primary knows to be taken are not granted again")
	require.LessOrEqual(t, f.most.Load(), int64(failoverLeases))
	f.tokensGrow(t)
	require.NoError(t, keptCtx.Err(), "a lease that was replicated lives on")
	kept.Release()
	require.NoError(t, <-waiter, "who waited then is served now")
}

// load has each limiter asked by several callers, until stop is closed.
func (f *failover) load(t *testing.T, phase int, stop <-chan struct{}) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	caller := func(once func()) {
		wg.Go(func() {
			pace := time.NewTicker(time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
					once()
				}
			}
		})
	}
	for i := range f.rates {
		rate := func() {
			if f.decide(t, f.rates[i]).Acquired() {
				f.granted.Add(1)
			}
		}
		for range 4 {
			caller(rate)
		}
		for range 2 {
			caller(func() {
				lease := f.decide(t, f.leases[i])
				if !lease.Acquired() {
					return
				}
				now := f.held.Add(1)
				for m := f.most.Load(); now > m && !f.most.CompareAndSwap(m, now); m = f.most.Load() {
				}
				n, _ := redislimit.FencingToken.From(lease)
				f.mu.Lock()
				f.tokens[phase] = append(f.tokens[phase], n)
				f.mu.Unlock()
				rate() // others ask meanwhile
				f.held.Add(-1)
				lease.Release()
			})
		}
	}
	return &wg
}

// decide takes one permit.
func (f *failover) decide(t *testing.T, l core.Limiter) core.Lease {
	t.Helper()
	lease := l.TryAcquire(1)
	if err := lease.Err(); err != nil && !errors.Is(err, core.ErrRejected) {
		if !errors.Is(err, redislimit.ErrStore) {
			t.Error(err)
		}
		f.denied.Add(1)
	}
	return lease
}

// tokensGrow finds that no token was given twice, and that all after the failover are greater
// than all before.
func (f *failover) tokensGrow(t *testing.T) {
	t.Helper()
	seen := map[uint64]bool{}
	var last uint64
	for phase, tokens := range f.tokens {
		require.NotEmpty(t, tokens)
		greatest := last
		for _, n := range tokens {
			require.Greater(t, n, last, "phase %d", phase)
			require.False(t, seen[n])
			seen[n] = true
			greatest = max(greatest, n)
		}
		last = greatest
	}
}

// The primary of a cluster's slots dies: its replica is found once the cluster has promoted it, which it does when it
// has missed the primary for 2 s.
func TestAClustersFailover(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		for _, adapter := range []string{"go-redis", "rueidis"} {
			t.Run(filepath.Base(program)+"/"+adapter, func(t *testing.T) {
				t.Parallel()
				nodes := realserver.Cluster(t, program)
				addrs := make([]string, len(nodes))
				for i, n := range nodes {
					addrs[i] = n.Addr
				}
				store := stores(t, addrs...)[adapter]
				asks := func() error { // by a limiter of its own, which does not know that the store was unreachable
					l, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
						TokenBucketOptions: core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour},
						Shared:             redislimit.StoreOptions{Store: store, Key: "key", Prefetch: 1, Timeout: patient},
					})
					if err != nil {
						return err
					}
					defer l.Close()
					return l.TryAcquire(1).Err()
				}
				primary := realserver.ClusterReplica(t, program, nodes, "{key}:limit")
				require.NoError(t, asks())
				primary.Kill()
				require.Eventually(t, func() bool { return asks() == nil }, 30*time.Second, 20*time.Millisecond)
			})
		}
	}
}
