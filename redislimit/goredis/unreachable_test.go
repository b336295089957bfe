package goredis_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/redislimit/internal/network"
)

// A refused connection is an immediate failure. It differs from an error that the server replies with.
func TestARefusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(t, 0)
		n.Refuse.Store(true)
		l := limiters(t, goredis.New(client(t, n, withoutNotifications)), 1)[0]
		for range 3 {
			start := time.Now()
			err := l.TryAcquire(1).Err()
			require.Zero(t, time.Since(start))
			require.ErrorIs(t, err, redislimit.ErrStore)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			require.NotErrorIs(t, err, redislimit.ErrRefused)
			time.Sleep(time.Millisecond)
		}
		n.Refuse.Store(false)
		time.Sleep(100 * time.Millisecond) // until the first probe
		require.NoError(t, l.TryAcquire(1).Err())
		n.Server.SetError("OOM no memory is left")
		err := l.TryAcquire(1).Err()
		require.ErrorIs(t, err, redislimit.ErrRefused)
		require.EqualError(t, err, "redislimit: the store is unreachable: OOM no memory is left")
	})
}

// If go-redis tries again to connect, a decision ends with its Timeout, and a later one has the reason.
func TestARefusedConnectionThatIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(t, 0)
		n.Refuse.Store(true)
		c := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", Dialer: n.Dial, MaintNotificationsConfig: withoutNotifications})
		t.Cleanup(func() {
			c.Close()
			time.Sleep(time.Second)
		})
		l := limiters(t, goredis.New(c), 1)[0]
		start := time.Now()
		err := l.TryAcquire(1).Err()
		require.ErrorIs(t, err, redislimit.ErrTimeout)
		require.NotErrorIs(t, err, syscall.ECONNREFUSED)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		time.Sleep(400 * time.Millisecond)
		err = l.TryAcquire(1).Err()
		require.ErrorIs(t, err, redislimit.ErrTimeout)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

// A subscription whose connection takes too long is given up when its context ends.
func TestASubscriptionThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", Dialer: silent})
		t.Cleanup(func() { c.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := goredis.New(c).Subscribe(ctx, "channel", func() {})
		require.Error(t, err)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// When a primary dies, the client asks once more where the slots are, and the next decision is the new primary's.
func TestACommandThatNoNodeAnswersReloadsTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var primary atomic.Int32
		nodes := map[string]*miniredis.Miniredis{}
		addrs := []string{"192.0.2.1:6379", "192.0.2.2:6379"}
		for _, addr := range addrs {
			m := miniredis.NewMiniRedis()
			t.Cleanup(m.Close)
			nodes[addr] = m
		}
		c := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addrs[primary.Load()]}}}}, nil
			},
			Dialer: func(_ context.Context, _, addr string) (net.Conn, error) {
				if addr != addrs[primary.Load()] {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
				}
				return nodes[addr].Dial()
			},
			DialerRetries: 1, PoolSize: 1, MaintNotificationsConfig: withoutNotifications,
		})
		t.Cleanup(func() {
			c.Close()
			time.Sleep(time.Minute) // go-redis closes the clients of nodes that have gone
		})
		l := limiters(t, goredis.New(c), 1)[0]
		require.NoError(t, l.TryAcquire(1).Err())

		nodes[addrs[0]].Close()
		primary.Store(1)
		require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
		synctest.Wait()
		require.NoError(t, l.TryAcquire(1).Err())
	})
}

// The stores of a client share its connections: a limiter that has a store of its own finds them ready.
func TestStoresOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New(t, roundTrip)
		c := client(t, n, withoutNotifications)
		allServed(t, limiters(t, goredis.New(c), 1))
		dials := n.Dials()
		for range 10 {
			require.NoError(t, limiters(t, goredis.New(c), 1)[0].TryAcquire(1).Err())
		}
		require.Equal(t, dials, n.Dials())
	})
}

// A server of a ring that is silent does not affect the limits on the others.
func TestASilentServerOfARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		servers := map[string]*miniredis.Miniredis{}
		addrs := map[string]string{"a": "192.0.2.1:6379", "b": "192.0.2.2:6379"}
		for _, addr := range addrs {
			m := miniredis.NewMiniRedis()
			t.Cleanup(m.Close)
			servers[addr] = m
		}
		c := redis.NewRing(&redis.RingOptions{
			Addrs: addrs, HeartbeatFrequency: 24 * time.Hour, // the ring would give the keys to the other server
			Dialer: func(ctx context.Context, _, addr string) (net.Conn, error) {
				if silent.Load() && addr == addrs["a"] {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return servers[addr].Dial()
			},
			DialerRetries: 1, DialTimeout: time.Second, PoolSize: 100,
		})
		t.Cleanup(func() {
			c.Close()
			time.Sleep(time.Minute) // go-redis may still try to connect
		})
		var on [2]*redislimit.Limiter // each server
		for _, l := range limiters(t, goredis.New(c), 20) {
			require.NoError(t, l.TryAcquire(1).Err())
			on[min(len(servers[addrs["a"]].Keys()), 1)] = l
			if len(servers[addrs["a"]].Keys()) > 0 && on[0] != nil {
				break
			}
			servers[addrs["a"]].FlushAll()
		}
		require.NotNil(t, on[0])
		require.NotNil(t, on[1])
		silent.Store(true)
		servers[addrs["a"]].Close()
		for range 5 {
			require.ErrorIs(t, on[1].TryAcquire(1).Err(), redislimit.ErrStore)
		}
		start := time.Now()
		for range 20 {
			require.ErrorIs(t, on[1].TryAcquire(1).Err(), redislimit.ErrStore)
			require.NoError(t, on[0].TryAcquire(1).Err())
		}
		require.Zero(t, time.Since(start))
	})
}
