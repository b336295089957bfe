package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
)

// ready is a store that runs scripts on the goroutine of the caller.
type ready struct{ *counting }

func (ready) Ready() bool { return true }

// A panic of the client reaches the caller, and later calls work: the pipeline and the breaker's probe have ended. The same is true
// if the client ends the goroutine, as t.FailNow does.
func TestAPanicOfTheClient(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("a hook's panic") },
		"Goexit": runtime.Goexit,
	} {
		for _, failures := range []int{0, 3} { // closed, and open
			t.Run(fmt.Sprintf("%s after %d failures", name, failures), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					o := s.shared("key")
					o.Store = ready{s.store}
					l := bucket(t, o, perSecond)
					s.store.answer(gone)
					for range failures {
						require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(time.Second)
					entered, proceed := make(chan struct{}), make(chan struct{})
					s.store.answer(func(context.Context, func() ([]int64, error)) ([]int64, error) {
						close(entered)
						<-proceed
						end()
						return nil, nil
					})
					var recovered any
					var caller sync.WaitGroup
					caller.Go(func() {
						defer func() { recovered = recover() }()
						l.TryAcquire(1)
					})
					<-entered
					other := make(chan error, 1)
					go func() { other <- l.TryAcquire(1).Err() }()
					synctest.Wait()
					s.store.answer(nil)
					close(proceed)
					caller.Wait()
					if name == "panic" {
						require.Equal(t, "a hook's panic", recovered)
					}
					if failures == 0 {
						require.NoError(t, <-other)
					} else {
						require.ErrorIs(t, <-other, redislimit.ErrStore)
						time.Sleep(5 * time.Second) // the next probe
					}
					start := time.Now()
					takes(t, l, 1)
					require.Zero(t, time.Since(start))
					require.Equal(t, 1, l.Statistics().Limit-l.Available()-1+failures/3)
				})
			})
		}
	}
}

// All limiters on a store learn from the calls of one of them that the store is unreachable, and that it is back. Watch is called
// once, however many they are.
func TestOneBreakerPerStore(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var down, up atomic.Int32
		stop := redislimit.Watch(s.store, func(is bool, _ error) {
			if is {
				up.Add(1)
			} else {
				down.Add(1)
			}
		})
		defer stop()
		runtime.GC() // which does not end the watch
		keys := core.Must(partition.New(partition.Options[int, int]{
			Key: func(i int) int { return i },
			New: func(i int) (core.Limiter, error) {
				o := s.shared(fmt.Sprint("user ", i))
				return redislimit.New(core.PerSecond(10, 10), o)
			},
		}))
		defer keys.Close()
		s.store.answer(hangs)
		start := time.Now()
		for i := range 20 {
			for range 5 {
				require.ErrorIs(t, keys.TryAcquire(i, 1).Err(), redislimit.ErrStore)
			}
		}
		require.Equal(t, 150*time.Millisecond, time.Since(start), "three decisions take their Timeout, all others no time")
		synctest.Wait()
		require.EqualValues(t, 1, down.Load())

		s.store.answer(nil)
		time.Sleep(5 * time.Second)
		for i := range 20 {
			require.NoError(t, keys.TryAcquire(i, 1).Err())
		}
		synctest.Wait()
		require.EqualValues(t, 1, up.Load())
	})
}

// Waiters of several limiters keep waiting while the store is unreachable, with few calls. They are served within 5 s of its return.
func TestWaitersKeepWaitingWhileTheStoreIsUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var waiting []*asking
		for i := range 10 {
			o := perSecond
			o.QueueLimit = 1
			l := bucket(t, s.shared(strconv.Itoa(i)), o)
			takes(t, l, 5)
			waiting = append(waiting, ask(t.Context(), l, 1))
		}
		s.store.answer(hangs)
		before := s.store.runs.Load()
		time.Sleep(time.Minute)
		require.Less(t, s.store.runs.Load()-before, int64(60))
		s.store.answer(nil)
		start := time.Now()
		for _, w := range waiting {
			require.NoError(t, <-w.over)
		}
		require.LessOrEqual(t, time.Since(start), 5100*time.Millisecond)
	})
}

// A renewal that is executed after a later Settle does not undo it, so the limit is not exceeded.
func TestARenewalOvertakenBySettle(t *testing.T) {
	for _, takesLong := range []time.Duration{10 * time.Millisecond, 3 * time.Second} { // within the Timeout, and late
		t.Run(takesLong.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 10})
				there := s.shared("key")
				there.Store = s.plain
				other := concurrency(t, there, core.ConcurrencyLimiterOptions{PermitLimit: 10})
				lease := takes(t, l, 5)
				sent := make(chan struct{})
				var first atomic.Bool
				s.store.answer(func(_ context.Context, next func() ([]int64, error)) ([]int64, error) {
					if first.CompareAndSwap(false, true) {
						close(sent)
						time.Sleep(takesLong)
					}
					return next()
				})
				<-sent // the renewal
				time.Sleep(60 * time.Millisecond)
				lease = lease.Settle(9)
				require.Equal(t, 1, other.Available())
				time.Sleep(takesLong)
				require.Equal(t, 1, other.Available())
				refuses(t, other, 5)
				theirs := takes(t, other, 1)
				lease = lease.Settle(2)
				require.Equal(t, 7, other.Available())
				time.Sleep(time.Minute)
				require.Equal(t, 7, other.Available())
				theirs.Release()
				lease.Release()
				require.Equal(t, 10, other.Available())
			})
		})
	}
}

// A lease is lost because the replies to its renewals are lost. Its release is sent to the server nevertheless.
func TestALostLeaseIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		there := s.shared("key")
		there.Store = s.plain
		other := concurrency(t, there, core.ConcurrencyLimiterOptions{PermitLimit: 1})
		l := concurrency(t, s.shared("key"), core.ConcurrencyLimiterOptions{PermitLimit: 1})
		lease := takes(t, l, 1)
		s.store.answer(func(ctx context.Context, next func() ([]int64, error)) ([]int64, error) {
			_, err := next()
			<-ctx.Done()
			return nil, errors.Join(err, ctx.Err())
		})
		ctx := redislimit.Context(t.Context(), lease)
		<-ctx.Done()
		require.Equal(t, redislimit.ErrLeaseLost, context.Cause(ctx))
		s.store.answer(nil)
		time.Sleep(6 * time.Second) // the next probe
		refuses(t, other, 1)        // the server has renewed it
		lease.Release()
		time.Sleep(100 * time.Millisecond)
		takes(t, other, 1).Release()
	})
}

// nodes is a store of several nodes. A key is on the node that its first letter names, unless it has moved.
type nodes struct {
	*counting

	mu     sync.Mutex
	moved  map[string]string // to another node
	silent map[string]bool
	runs   map[string]int
}

func (n *nodes) at(key string) string {
	first := strings.TrimPrefix(key, "{")[:1]
	if to := n.moved[first]; to != "" {
		return to
	}
	return first
}

func (n *nodes) Node(key string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at(key)
}

func (n *nodes) Client() any { return n }

func (n *nodes) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	n.mu.Lock()
	node := n.at(keys[0])
	n.runs[node]++
	silent := n.silent[node]
	n.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return n.counting.Run(ctx, s, keys, args...)
}

func (n *nodes) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// A node that is silent shuts the limits on it, and no others. When its keys move to another node, as in a failover, they are served
// there without a probe. Watch is told when the first node is silent, and when the last one is back.
func TestABreakerPerNode(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		store := &nodes{counting: s.store, moved: map[string]string{}, silent: map[string]bool{}, runs: map[string]int{}}
		var changes []bool
		stop := redislimit.Watch(store, func(up bool, _ error) { changes = append(changes, up) })
		defer stop()
		limit := func(key string) *redislimit.Limiter {
			return bucket(t, redislimit.Options{Store: store, Key: key, Prefetch: 1}, core.PerSecond(1000, 1000))
		}
		a, a2, b, b2, c := limit("a"), limit("a2"), limit("b"), limit("b2"), limit("c")
		fails := func(after time.Duration, l *redislimit.Limiter) {
			t.Helper()
			start := time.Now()
			require.ErrorIs(t, l.TryAcquire(1).Err(), redislimit.ErrStore)
			require.Equal(t, after, time.Since(start))
		}
		store.set(func() { store.silent["a"], store.silent["b"] = true, true })
		for _, node := range [][2]*redislimit.Limiter{{a, a2}, {b, b2}} {
			for range 3 {
				fails(50*time.Millisecond, node[0])
				takes(t, c, 1)
			}
			fails(0, node[0])
			fails(0, node[1]) // which has never asked
		}
		for range 1000 {
			takes(t, c, 1)
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, []bool{false}, changes)

		store.set(func() { store.moved["a"] = "c" })
		takes(t, a, 1)
		takes(t, a2, 1)
		takes(t, c, 1)
		synctest.Wait()
		require.Equal(t, []bool{false}, changes, "b is still silent")
		store.set(func() {
			require.Equal(t, 3, store.runs["a"])
			store.silent["b"] = false
		})
		time.Sleep(5 * time.Second)
		takes(t, b, 1)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, changes)
	})
}

// A waiter of a silent node waits on, with few calls, while the others' are served. Newest first, it has no ticket.
func TestAWaiterOfASilentNode(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		store := &nodes{counting: s.store, silent: map[string]bool{}, runs: map[string]int{}}
		waiters := map[string]*asking{}
		o := perSecond
		o.QueueLimit, o.QueueOrder = 1, core.NewestFirst
		for _, key := range []string{"a", "b"} {
			l := bucket(t, redislimit.Options{Store: store, Key: key, Prefetch: 1}, o)
			takes(t, l, 5)
			waiters[key] = ask(t.Context(), l, 1)
		}
		store.set(func() { store.silent["a"] = true })
		start := time.Now()
		require.NoError(t, <-waiters["b"].over)
		require.Less(t, time.Since(start), 2*time.Second)
		time.Sleep(time.Minute)
		require.Empty(t, waiters["a"].over)
		store.set(func() {
			require.Less(t, store.runs["a"], 60)
			store.silent["a"] = false
		})
		start = time.Now()
		require.NoError(t, <-waiters["a"].over)
		require.LessOrEqual(t, time.Since(start), 5100*time.Millisecond)
	})
}
