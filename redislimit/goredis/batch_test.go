package goredis_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire sees what go-redis sends, and takes its time.
type wire struct {
	mu       sync.Mutex
	singles  int
	batches  []int
	takes    time.Duration
	stuck    int // so many calls get no answer
	deadline time.Duration
}

func (*wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) wait(ctx context.Context, cmds ...redis.Cmder) error {
	n := len(cmds)
	if name := cmds[0].Name(); name != "evalsha" && name != "eval" {
		return nil // a connection begins
	}
	w.mu.Lock()
	if n == 1 {
		w.singles++
	} else {
		w.batches = append(w.batches, n)
	}
	stuck := w.stuck > 0
	if stuck {
		w.stuck--
	}
	at, _ := ctx.Deadline()
	w.deadline = time.Until(at)
	w.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(w.takes)
	return nil
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := w.wait(ctx, cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := w.wait(ctx, cmds...); err != nil {
			for _, c := range cmds {
				c.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// single is a store that lets each take be a call of its own, which only the client has travel with others.
type single struct{ redislimit.Store }

func (single) Prompt() bool { return true }

func client(m *miniredis.Miniredis) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:            "memory",
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		DisableIdentity: true, Protocol: 2, ContextTimeoutEnabled: true, // for the hooks
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// onWire has a bubble with a server, and limiters of 5 permits that ask it by the wire.
func onWire(t *testing.T, limiters int, test func(t *testing.T, w *wire, m *miniredis.Miniredis, all []*redislimit.TokenBucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		w := &wire{}
		c := client(m)
		t.Cleanup(func() { c.Close() })
		c.AddHook(w)
		store := single{goredis.New(c)}
		all := make([]*redislimit.TokenBucket, limiters)
		for i := range all {
			var err error
			all[i], err = redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
				TokenBucketOptions: core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour},
				Shared:             redislimit.Shared{Store: store, Key: fmt.Sprint("key", i), Ahead: 1},
			})
			require.NoError(t, err)
			t.Cleanup(func() { all[i].Close() })
		}
		require.Equal(t, 5, all[0].Available())
		w.singles, w.takes = 0, time.Millisecond
		test(t, w, m, all)
	})
}

// together has each take a permit, all at once, and returns how long each took, the shortest first.
func together(t *testing.T, all []*redislimit.TokenBucket) (took []time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for _, l := range all {
		wg.Go(func() {
			if err := l.TryAcquire(1).Err(); err != nil {
				t.Error(err)
			}
			mu.Lock()
			took = append(took, time.Since(start))
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// Takes of different limiters at the same time travel in pipelines: two are on the way at once.
func TestTakesOfManyKeysTravelTogether(t *testing.T) {
	onWire(t, 60, func(t *testing.T, w *wire, _ *miniredis.Miniredis, all []*redislimit.TokenBucket) {
		took := together(t, all)
		require.Equal(t, time.Millisecond, took[1])
		require.Equal(t, 2*time.Millisecond, took[2])
		require.LessOrEqual(t, took[59], 4*time.Millisecond)
		require.LessOrEqual(t, w.singles+len(w.batches), 2+4, "60 calls, in batches of %v", w.batches)
		require.LessOrEqual(t, w.deadline, 49*time.Millisecond, "Budget, less what has passed")
		for _, l := range all {
			require.Equal(t, 4, l.Available())
		}
	})
}

// A server that has lost the script is sent it, by each who needs it.
func TestABatchAfterAScriptFlush(t *testing.T) {
	onWire(t, 6, func(t *testing.T, w *wire, m *miniredis.Miniredis, all []*redislimit.TokenBucket) {
		m.FlushAll()
		c := client(m)
		require.NoError(t, c.ScriptFlush(t.Context()).Err())
		require.NoError(t, c.Close())
		together(t, all)
		for _, l := range all {
			require.Equal(t, 4, l.Available())
		}
	})
}

// Whoever waits behind calls that nobody answers waits for them for 5 ms, and then goes by itself.
func TestNobodyWaitsForStuckCalls(t *testing.T) {
	onWire(t, 5, func(t *testing.T, w *wire, _ *miniredis.Miniredis, all []*redislimit.TokenBucket) {
		w.stuck = 2
		var wg sync.WaitGroup
		start := time.Now()
		for _, l := range all[:2] {
			wg.Go(func() {
				if err := l.TryAcquire(1).Err(); err == nil || time.Since(start) != 50*time.Millisecond {
					t.Errorf("%v, after %v", err, time.Since(start))
				}
			})
		}
		synctest.Wait()
		took := together(t, all[2:])
		require.Equal(t, 6*time.Millisecond, took[0])
		require.Equal(t, 6*time.Millisecond, took[2])
		require.Empty(t, w.batches)
		wg.Wait()
	})
}

// A take whose Budget is over before its batch goes is not sent, and takes nothing.
func TestABatchLeavesOutWhoHasGone(t *testing.T) {
	onWire(t, 3, func(t *testing.T, w *wire, _ *miniredis.Miniredis, all []*redislimit.TokenBucket) {
		w.takes = 4 * time.Millisecond
		o := all[2].Options()
		o.Shared.Budget = 2 * time.Millisecond
		hasty, err := redislimit.NewTokenBucket(o)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, l := range all[:2] {
			wg.Go(func() { l.TryAcquire(1) })
		}
		synctest.Wait()
		start := time.Now()
		require.ErrorIs(t, hasty.TryAcquire(1).Err(), redislimit.ErrStore)
		require.Equal(t, 2*time.Millisecond, time.Since(start))
		wg.Wait()
		require.Equal(t, 2, w.singles)
		require.Equal(t, 5, all[2].Available())
		require.NoError(t, hasty.Close())
	})
}
