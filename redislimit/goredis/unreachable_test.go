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
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// refusing runs a test with a client whose connections are refused while that is set.
func refusing(t *testing.T, test func(t *testing.T, refuse *atomic.Bool, m *miniredis.Miniredis, c *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		c := redis.NewClient(&redis.Options{
			Addr: "192.0.2.1:6379", // NewClient would look a name up
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				if refuse.Load() {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
				}
				return m.Dial()
			},
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() {
			c.Close()
			time.Sleep(time.Second) // go-redis still tries to connect
		})
		test(t, &refuse, m, c)
	})
}

func limiter(t *testing.T, s redislimit.StoreOptions) *redislimit.TokenBucket {
	t.Helper()
	s.Prefetch = 1
	l, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
		TokenBucketOptions: core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 100},
		Shared:             s,
	})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// A refused connection is an immediate failure, although go-redis tries again for 400 ms. It differs from an error that the server
// replies with.
func TestARefusedConnection(t *testing.T) {
	refusing(t, func(t *testing.T, refuse *atomic.Bool, m *miniredis.Miniredis, c *redis.Client) {
		refuse.Store(true)
		l := limiter(t, redislimit.StoreOptions{Store: goredis.New(c), Key: "key"})
		for range 3 {
			start := time.Now()
			err := l.TryAcquire(1).Err()
			require.Zero(t, time.Since(start))
			require.ErrorIs(t, err, redislimit.ErrStore)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			require.NotErrorIs(t, err, redislimit.ErrRefused)
			time.Sleep(time.Millisecond)
		}
		refuse.Store(false)
		time.Sleep(100 * time.Millisecond) // until the first probe
		require.NoError(t, l.TryAcquire(1).Err())
		m.SetError("OOM no memory is left")
		err := l.TryAcquire(1).Err()
		require.ErrorIs(t, err, redislimit.ErrRefused)
		require.EqualError(t, err, "redislimit: the store is unreachable: OOM no memory is left")
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
			DialerRetries: 1, PoolSize: 1, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() {
			c.Close()
			time.Sleep(time.Minute) // go-redis closes the clients of nodes that have gone
		})
		l := limiter(t, redislimit.StoreOptions{Store: goredis.New(c), Key: "key"})
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
	refusing(t, func(t *testing.T, _ *atomic.Bool, m *miniredis.Miniredis, c *redis.Client) {
		require.NoError(t, limiter(t, redislimit.StoreOptions{Store: goredis.New(c), Key: "key"}).TryAcquire(1).Err())
		before := m.CommandCount()
		const takes, commands = 10, 4 // EVALSHA, and the script's TIME, GET and SET
		for range takes {
			require.NoError(t, limiter(t, redislimit.StoreOptions{Store: goredis.New(c), Key: "key"}).TryAcquire(1).Err())
		}
		require.Equal(t, takes*commands, m.CommandCount()-before)
	})
}
