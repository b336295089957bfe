//go:build unix

package adaptertest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// replicated waits until the replica has all that the primary, which has the slot, has written so far.
func replicated(t *testing.T, primary *realserver.Server, slot string) {
	t.Helper()
	c := primary.Client()
	defer c.Close()
	conn := c.Conn() // WAIT is about what its own connection has written, and all before that
	defer conn.Close()
	require.NoError(t, conn.Set(t.Context(), "{"+slot+"}", 1, 0).Err())
	n, err := conn.Wait(t.Context(), 1, time.Minute).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func token(t *testing.T, l core.Lease) uint64 {
	t.Helper()
	n, ok := redislimit.FencingToken.From(l)
	require.True(t, ok)
	return n
}

// decided takes permits from a limiter whose store replies. A client with several connections notices one by one that they were lost.
func decided(t *testing.T, l core.Limiter, permits int) (lease core.Lease) {
	t.Helper()
	require.Eventually(t, func() bool {
		lease = l.TryAcquire(permits)
		return !errors.Is(lease.Err(), redislimit.ErrStore)
	}, 2*patient, 20*time.Millisecond)
	return lease
}

// What the new primary does not know of passes again, and no more than that: here all that
// was granted between the replica's last write and the primary's end.
func testFailoverForgetsWhatWasNotReplicated(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		const limit, leases = 100, 4
		primary := realserver.Start(t, program)
		replica := realserver.Replica(t, program, primary)
		var addr atomic.Pointer[string]
		addr.Store(&primary.Addr)
		store := connect(t, Servers{Addrs: []string{"192.0.2.1:6379"}, Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", *addr.Load())
		}})
		o := redislimit.Options{Store: store, Key: "rate", Timeout: patient, Prefetch: 1, TTL: 9 * time.Second}
		rate := limiter(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour})
		o.Key = "leases"
		held := limiter(t, o, core.ConcurrencyLimiterOptions{PermitLimit: leases})
		waiting := limiter(t, o, core.ConcurrencyLimiterOptions{PermitLimit: leases, QueueLimit: leases})

		takes(t, rate, 40)
		kept := takes(t, held, 2)
		keptCtx := redislimit.Context(t.Context(), kept)
		replicated(t, primary, "any")
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
		require.NoError(t, decided(t, rate, limit-40-1).Err())
		require.ErrorIs(t, decided(t, rate, 1).Err(), core.ErrRejected)

		var again core.Lease // with the lost one, one more than the limit until its holder renews it
		require.Eventually(t, func() bool {
			again = held.TryAcquire(leases - 2)
			return again.Acquired()
		}, 2*patient, 20*time.Millisecond)
		require.ErrorIs(t, decided(t, held, 1).Err(), core.ErrRejected)
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

// busy counts what callers are granted.
type busy struct{ granted, held, most, last atomic.Int64 }

// load has callers of several limiters, as in several processes, ask until stop is called.
func (b *busy) load(t *testing.T, rates []*redislimit.Limiter, leases []*redislimit.Limiter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	before := b.last.Load()
	var callers sync.WaitGroup
	for i := range 18 {
		rate, limit := rates[i%len(rates)], leases[i%len(leases)]
		callers.Go(func() {
			for ctx.Err() == nil {
				b.granted.Add(int64(rate.TryAcquire(1).Permits()))
				if lease := limit.TryAcquire(1); lease.Acquired() {
					atLeast(&b.most, b.held.Add(1))
					if n := int64(token(t, lease)); n <= before {
						t.Errorf("token %d after %d", n, before)
					} else {
						atLeast(&b.last, n)
					}
					time.Sleep(time.Millisecond)
					b.held.Add(-1)
					lease.Release()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		callers.Wait()
	}
}

// atLeast raises a number.
func atLeast(n *atomic.Int64, to int64) {
	for now := n.Load(); now < to && !n.CompareAndSwap(now, to); now = n.Load() {
	}
}

// The primary is killed, or stops replying, and Sentinel promotes the replica while callers ask. Permits that the replica knows to be taken are not
// granted again, leases live on, and fencing tokens grow.
func testFailoverUnderLoad(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onFaults(t, func(t *testing.T, f fault) {
		t.Helper()
		failoverUnderLoad(t, connect, f)
	})
}

// fault is how a server is lost, and how it comes back.
type fault struct{ start, end func(*realserver.Server) }

// onFaults runs a test for each fault.
func onFaults(t *testing.T, test func(t *testing.T, f fault)) {
	t.Helper()
	for name, f := range map[string]fault{
		"killed": {(*realserver.Server).Kill, (*realserver.Server).Restart},
		"silent": {
			func(s *realserver.Server) { s.Signal(syscall.SIGSTOP) },
			func(s *realserver.Server) { s.Signal(syscall.SIGCONT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

func failoverUnderLoad(t *testing.T, connect Connect, f fault) {
	t.Helper()
	onPrograms(t, func(t *testing.T, program string) {
		t.Helper()
		const limit, holders = 2000, 3
		primary := realserver.Start(t, program)
		replica := realserver.Replica(t, program, primary)
		sentinel := realserver.Sentinel(t, program, primary, 0)
		store := connect(t, Servers{Addrs: []string{sentinel.Addr}, Sentinel: true})
		build := func(timeout, ttl time.Duration) (*redislimit.Limiter, *redislimit.Limiter) {
			o := redislimit.Options{Store: store, Key: "rate", Timeout: timeout, TTL: ttl, Prefetch: 1}
			rate := limiter(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour})
			o.Key = "leases"
			return rate, limiter(t, o, core.ConcurrencyLimiterOptions{PermitLimit: holders, QueueLimit: holders})
		}
		rates, leases := make([]*redislimit.Limiter, 3), make([]*redislimit.Limiter, 3)
		for i := range rates {
			rates[i], leases[i] = build(0, 5*time.Second) // a lease whose reply or release is lost ends after that
		}
		rate, holder := build(patient, time.Minute)
		kept := takes(t, holder, 2)
		ctx := redislimit.Context(t.Context(), kept)
		var b busy
		b.held.Add(2)
		w := newWaiters(t, []redislimit.Store{store, store})
		served := w.run(t)
		stop := b.load(t, rates, leases)
		require.Eventually(t, func() bool { return b.granted.Load() > limit/2 && b.last.Load() > 0 }, 4*patient, time.Millisecond)
		stop()
		waiter := make(chan error, 1)
		go func() {
			lease, err := holder.Acquire(t.Context(), holders)
			lease.Release()
			waiter <- err
		}()
		replicated(t, primary, "any")
		f.start(primary)
		before := b.last.Load()
		stop = b.load(t, rates, leases)
		sentinel.Failover()
		replica.AwaitInfo("role:master")
		require.Eventually(t, func() bool {
			return errors.Is(rate.TryAcquire(limit).Err(), core.ErrRejected) && rate.Available() == 0 && b.last.Load() > before
		}, 12*patient, 10*time.Millisecond, "the rest is granted")
		stop()
		served()
		w.check(t, 1, true)
		require.LessOrEqual(t, b.granted.Load(), int64(limit))
		require.LessOrEqual(t, b.most.Load(), int64(holders))
		require.NoError(t, ctx.Err(), "a lease that was replicated lives on")
		kept.Release()
		require.NoError(t, <-waiter, "who waited then is served now")
	})
}

// The primary of a cluster's slots dies, or stops replying: its replica is found once the cluster has promoted it, which it does when it
// has missed the primary for 2 s. What the replica knew is taken stays so. Limits of other primaries are served all the time.
func testAClustersFailover(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onFaults(t, func(t *testing.T, f fault) {
		t.Helper()
		onCluster(t, connect, func(t *testing.T, program string, nodes []*realserver.Server, store redislimit.Store) {
			t.Helper()
			bucket := func(key string, timeout time.Duration) *redislimit.Limiter {
				return limiter(t, redislimit.Options{Store: store, Key: key, Prefetch: 1, Timeout: timeout},
					core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour})
			}
			const key = "key"
			primary := realserver.ClusterReplica(t, program, nodes, "{"+key+"}:limit")
			l := bucket(key, 200*time.Millisecond)
			var other *redislimit.Limiter
			for i := 0; other == nil; i++ {
				if key := "other " + strconv.Itoa(i); nodes[realserver.Master(t, nodes, "{"+key+"}:limit")] != primary {
					other = bucket(key, patient)
				}
			}
			takes(t, other, 1)
			require.Eventually(t, func() bool { return l.TryAcquire(100).Acquired() }, 12*patient, 20*time.Millisecond)
			replicated(t, primary, key)
			var up atomic.Bool
			up.Store(true)
			stop := redislimit.Watch(store, func(is bool, _ error) { up.Store(is) })
			defer stop()
			f.start(primary)
			for up.Load() {
				_ = l.TryAcquire(1)
			}
			require.Eventually(t, func() bool {
				takes(t, other, 1)
				return l.TryAcquire(1).Acquired()
			}, 12*patient, 20*time.Millisecond)
			require.LessOrEqual(t, l.Available(), 1000-100-1)
			require.Eventually(t, up.Load, 12*patient, 20*time.Millisecond)
		})
	})
}

// A master of a cluster that has no replica is killed, or stops replying. Limits whose slots it has are decided by Unavailable, and those
// of other masters by Redis. When it is back, all are decided by Redis.
func testASilentNodeOfACluster(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	onFaults(t, func(t *testing.T, f fault) {
		t.Helper()
		onCluster(t, connect, func(t *testing.T, _ string, nodes []*realserver.Server, store redislimit.Store) {
			t.Helper()
			const limit, keysEach = 10_000, 3
			of := make([][]*redislimit.Limiter, len(nodes)) // the limiters of each node
			for i := 0; len(of[0]) < keysEach || len(of[1]) < keysEach || len(of[2]) < keysEach; i++ {
				key := "key " + strconv.Itoa(i)
				node := realserver.Master(t, nodes, "{"+key+"}:limit")
				if len(of[node]) == keysEach {
					continue
				}
				o := redislimit.Options{Store: store, Key: key, Timeout: patient, Prefetch: 1}
				if node == 0 {
					o.Timeout = 200 * time.Millisecond
				}
				of[node] = append(of[node], limiter(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour}))
			}
			served := func(l *redislimit.Limiter) {
				t.Helper()
				require.Eventually(t, func() bool { return l.TryAcquire(1).Acquired() }, 12*patient, 20*time.Millisecond)
			}
			for _, limiters := range of {
				for _, l := range limiters {
					served(l)
				}
			}
			var up atomic.Bool
			up.Store(true)
			stop := redislimit.Watch(store, func(is bool, _ error) { up.Store(is) })
			defer stop()
			taken := make(map[*redislimit.Limiter]int)
			for _, l := range append(of[1], of[2]...) {
				taken[l] = limit - l.Available()
			}

			f.start(nodes[0])
			for up.Load() {
				_ = of[0][0].TryAcquire(1)
			}
			for range 100 {
				for _, l := range of[0] {
					require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
				}
				for l := range taken {
					takes(t, l, 1)
					taken[l]++
				}
				time.Sleep(10 * time.Millisecond)
			}
			require.False(t, up.Load())
			for l, n := range taken {
				require.Equal(t, limit-n, l.Available())
			}

			f.end(nodes[0])
			for _, l := range of[0] {
				served(l)
			}
			require.Eventually(t, up.Load, 12*patient, 20*time.Millisecond)
		})
	})
}
