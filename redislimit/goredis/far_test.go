package goredis_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/redislimit/internal/network"
)

func TestMain(m *testing.M) {
	// go-redis looks once a second whether a server that was unreachable is back.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

const roundTrip = 24 * time.Millisecond

var withoutNotifications = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// client returns a client of the network's server.
func client(t *testing.T, n *network.Network, notifications *maintnotifications.Config) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: "192.0.2.1:6379", Dialer: n.Dial, DialerRetries: 1, PoolSize: 32, MaintNotificationsConfig: notifications,
	})
	t.Cleanup(func() {
		c.Close()
		time.Sleep(time.Second) // go-redis may still try to connect
	})
	return c
}

// limiters returns limiters of 100 permits.
func limiters(t *testing.T, store redislimit.Store, n int) []*redislimit.Limiter {
	t.Helper()
	all := make([]*redislimit.Limiter, n)
	for i := range all {
		var err error
		all[i], err = redislimit.New(core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: store, Key: fmt.Sprint("key", i), Prefetch: 1})
		require.NoError(t, err)
		t.Cleanup(func() { all[i].Close() })
	}
	return all
}

// farAway runs a test with limiters on a server that is a round trip of 24 ms away. Their Timeout is 50 ms. A new connection takes
// 24 ms for TCP, HELLO and CLIENT SETINFO each.
func farAway(t *testing.T, n int, test func(t *testing.T, n *network.Network, all []*redislimit.Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		far := network.New(t, roundTrip)
		test(t, far, limiters(t, goredis.New(client(t, far, withoutNotifications)), n))
	})
}

// together has each limiter take permits concurrently, and returns how many were granted and how long the slowest took.
func together(all []*redislimit.Limiter, permits int) (granted int, took time.Duration) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for _, l := range all {
		wg.Go(func() {
			err := l.TryAcquire(permits).Err()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				granted++
			}
			took = max(took, time.Since(start))
		})
	}
	wg.Wait()
	return granted, took
}

// A connection that takes longer than a decision is completed, and kept.
func TestAFarServer(t *testing.T) {
	farAway(t, 1, func(t *testing.T, n *network.Network, all []*redislimit.Limiter) {
		granted, took := together(all, 1)
		require.Zero(t, granted)
		require.Equal(t, 50*time.Millisecond, took)
		time.Sleep(time.Second)
		for range 3 {
			granted, took = together(all, 1)
			require.Equal(t, 1, granted)
			require.Equal(t, roundTrip, took)
		}
		require.Equal(t, 1, n.Dials())
	})
}

// Concurrent callers find as many connections, once a probe has reached the server.
func TestManyCallersOfAFarServer(t *testing.T) {
	farAway(t, 8, func(t *testing.T, n *network.Network, all []*redislimit.Limiter) {
		require.Equal(t, 3, allServed(t, all))
		for range 3 {
			granted, took := together(all, 1)
			require.Equal(t, 8, granted)
			require.Equal(t, roundTrip, took)
		}
		require.Equal(t, 8, n.Dials())
	})
}

// If there are more callers than connections, they share pipelines, and no pipeline waits for another. A script is sent once, even
// if its connection is lost, although go-redis retries other commands.
func TestAScriptIsSentOnce(t *testing.T) {
	for _, callers := range []int{1, 64} { // on 32 connections
		farAway(t, callers, func(t *testing.T, n *network.Network, all []*redislimit.Limiter) {
			allServed(t, all)
			time.AfterFunc(roundTrip/2+time.Millisecond, n.Cut) // the server has the commands, the callers no answer
			granted, _ := together(all, 1)
			require.Zero(t, granted)
			allServed(t, all)
			for _, l := range all {
				require.GreaterOrEqual(t, l.Available(), 99, "a caller that had to connect has sent nothing, and no caller has sent twice")
			}
		})
	}
}

// allServed has all limiters ask, for no permits, until all are answered within a round trip, and returns how often.
func allServed(t *testing.T, all []*redislimit.Limiter) (rounds int) {
	t.Helper()
	for range 50 { // connections in memory that were cut are not noticed before they are used
		rounds++
		if granted, took := together(all, 0); granted == len(all) && took == roundTrip {
			return rounds
		}
		time.Sleep(10 * time.Second)
	}
	t.Fatal("there are still fewer connections than callers want")
	return rounds
}

// By default a new connection also asks for maintenance notifications, and changes the client's options if the server does not
// support them. Other connections that are made concurrently read those options, so the race detector must find no race.
func TestConcurrentConnectionsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allServed(t, limiters(t, goredis.New(client(t, network.New(t, roundTrip), nil)), 8))
	})
}

// Callers take permits while connections are cut. In the end each finds a connection that is ready.
func TestStressConnections(t *testing.T) {
	farAway(t, 16, func(t *testing.T, n *network.Network, all []*redislimit.Limiter) {
		var wg sync.WaitGroup
		for i, l := range all {
			wg.Go(func() {
				for range 20 {
					l.TryAcquire(1)
					time.Sleep(time.Duration(1+i) * 7 * time.Millisecond)
				}
			})
		}
		for range 5 {
			time.Sleep(200 * time.Millisecond)
			n.Cut()
		}
		wg.Wait()
		time.Sleep(10 * time.Second)
		allServed(t, all)
	})
}
