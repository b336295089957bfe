package partition_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// A partition is dropped as soon as its limiter reports that it has been idle for IdleTimeout.
func TestDroppedWhenIdleForLongEnough(t *testing.T) {
	for name, c := range map[string]struct {
		limiter func() core.Limiter
		idleAt  time.Duration // after a permit was taken and released
	}{
		"semaphore": {func() core.Limiter { return semaphore("", 3) }, 0},
		"bucket":    {func() core.Limiter { return bucket(3, time.Second) }, time.Second},
		"unlimited": {core.Unlimited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for given, timeout := range map[time.Duration]time.Duration{5 * time.Second: 5 * time.Second, 0: 10 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					k := newKeyed(t, options{
						IdleTimeout: given,
						New:         func(string) (core.Limiter, error) { return c.limiter(), nil },
					})
					takes(t, k, "a", 1).Release()
					time.Sleep(c.idleAt + 1)
					see(t, k)
					time.Sleep(timeout - 2)
					require.Zero(t, k.Sweep())
					time.Sleep(2)
					require.Equal(t, 1, k.Len(), "nothing happens without a call")
					require.Equal(t, 1, k.Sweep())
					require.Equal(t, partition.Counts{Created: 1, Dropped: 1}, k.Counts())
					_, ok := k.Get("a")
					require.False(t, ok)
					takes(t, k, "a", 3)
				})
			}
		})
	}
}

// A limiter is not dropped while permits are held or requests wait, or if it does not report that it is idle.
func TestNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
			switch key {
			case "no idler":
				return bare{semaphore(key, 1)}, nil
			case "busy fake":
				return newFake(busy), nil
			}
			return semaphore(key, 1), nil
		}})
		held := takes(t, k, "held", 1)
		takes(t, k, "no idler", 1).Release()
		takes(t, k, "busy fake", 1).Release()
		waited := takes(t, k, "waited", 1)
		go func() {
			l, err := k.Acquire(t.Context(), "waited", 1)
			if err != nil {
				t.Error(err)
			}
			l.Release()
		}()
		for range 10 {
			<-time.NewTimer(time.Minute).C
			require.Zero(t, k.Sweep())
		}
		require.Equal(t, 4, k.Len())
		held.Release()
		waited.Release()
		synctest.Wait()
		see(t, k)
		<-time.NewTimer(10 * time.Second).C
		require.Equal(t, 2, k.Sweep())
		require.Equal(t, map[string]bool{"no idler": true, "busy fake": true}, live(k))
	})
}

// A limiter that reports that it is idle during a request is not dropped.
func TestNotDroppedWhileARequestIsInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(time.Hour)
		f.try = func(n int) core.Lease {
			<-time.NewTimer(time.Minute).C
			return core.Grant(n, nil)
		}
		k := newKeyed(t, options{MaxPartitions: 1, New: func(string) (core.Limiter, error) { return f, nil }})
		go k.TryAcquire("a", 1)
		synctest.Wait()
		require.Zero(t, k.Sweep())
		for i := range 100 {
			refused(t, k, strconv.Itoa(i), 1, core.ErrRejected)
		}
		<-time.NewTimer(time.Minute).C
		synctest.Wait()
		require.Equal(t, 1, k.Sweep())
	})
}

// hasty is a semaphore that is asked for permits just after it has looked whether it is idle.
type hasty struct {
	*core.ConcurrencyLimiter

	after func()
}

func (h hasty) IdleFor() (time.Duration, bool) {
	d, idle := h.ConcurrencyLimiter.IdleFor()
	h.after()
	return d, idle
}

// A request that comes and goes after the limiter has reported that it is idle, and before the drop,
// keeps the partition: it may have taken permits.
func TestNotDroppedIfARequestComesBetween(t *testing.T) {
	for name, look := range map[string]func(*keyed){
		"sweep": func(k *keyed) { require.Zero(t, k.Sweep()) },
		"requests": func(k *keyed) {
			for range 1000 { // some of them sweep
				k.TryAcquire("a", 0)
			}
		},
		"room": func(k *keyed) { refused(t, k, "b", 1, core.ErrRejected) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var k *keyed
			var leases []core.Lease
			k = newKeyed(t, options{
				MaxPartitions: 1,
				New: func(string) (core.Limiter, error) {
					return hasty{semaphore("", 1), func() {
						if l := k.TryAcquire("a", 1); l.Acquired() {
							leases = append(leases, l)
						}
					}}, nil
				},
				OnEvict: func(string, core.Limiter) { t.Error(name, "dropped it") },
			})
			takes(t, k, "a", 1).Release()
			time.Sleep(time.Hour)
			look(k)
			require.Len(t, leases, 1, name)
			refused(t, k, "a", 1, core.ErrRejected)
			require.Equal(t, uint64(1), k.Counts().Created)
			leases[0].Release()
		})
	}
}

// Among n live partitions, all that may be dropped are gone after some 4n+64 further requests, on
// average, whatever the requests are and however they end.
func TestRequestsSweep(t *testing.T) {
	limiters := map[string]func(string) core.Limiter{
		"ours":   func(key string) core.Limiter { return semaphore(key, 1) },
		"theirs": func(string) core.Limiter { return newFake(20 * time.Second) },
	}
	requests := map[string]func(k *keyed, n, i int){
		"of an idle key":   func(k *keyed, _, _ int) { k.TryAcquire("0", 0) },
		"of new keys":      func(k *keyed, _, i int) { k.TryAcquire("new"+strconv.Itoa(i/2), 1) },
		"through Acquire":  func(k *keyed, n, i int) { _, _ = k.Acquire(nilContext{}, strconv.Itoa(n+i%n), 0) },
		"that are refused": func(k *keyed, _, _ int) { k.TryAcquire("new", 1000) },
		"of For":           func(k *keyed, _, _ int) { partition.For[string](k, "new").TryAcquire(1).Release() },
	}
	for kind, limiter := range limiters {
		for what, request := range requests {
			for _, n := range []int{1, 10, 333} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, what, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						calls, allowed := 0, 0
						for range max(5, 200/n) { // so that the average is meaningful
							k := newKeyed(t, options{New: func(key string) (core.Limiter, error) { return limiter(key), nil }})
							for i := range n {
								takes(t, k, strconv.Itoa(i), 1).Release()
							}
							if kind == "ours" {
								see(t, k)
							}
							<-time.NewTimer(10 * time.Second).C
							allowed += 4*k.Len() + 64
							first := maps.Collect(k.All())
							for i := 0; anyIdle(k, first); i++ {
								request(k, n, i)
								calls++
							}
						}
						require.LessOrEqual(t, calls, allowed)
					})
				})
			}
		}
	}
}

// anyIdle reports whether one of those partitions is still live that may be dropped.
func anyIdle(k *keyed, partitions map[string]core.Limiter) bool {
	for key, first := range partitions {
		l, _ := k.Get(key)
		if d, idle := first.(core.Idler).IdleFor(); l == first && idle && d >= 10*time.Second {
			return true
		}
	}
	return false
}

// A Keyed made outside all bubbles drops by the clock of the bubble that it is used in, also
// after one whose clock was ahead.
func TestRequestsSweepInAnotherBubble(t *testing.T) {
	k := newKeyed(t, options{})
	for _, wait := range []time.Duration{time.Hour, 10 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			<-time.NewTimer(wait).C
			takes(t, k, "a", 1).Release()
			for range 1000 {
				k.TryAcquire("b", 0)
			}
			<-time.NewTimer(10 * time.Second).C
			before := k.Counts().Dropped
			for range 1000 {
				k.TryAcquire("b", 0)
			}
			require.Equal(t, before+2, k.Counts().Dropped)
			k.Sweep()
		})
	}
}

// A user's limiter may become idle without a request. The next sweep asks it.
func TestALimiterBecomesIdleByItself(t *testing.T) {
	f := newFake(9 * time.Second)
	k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
		if key == "busy" {
			return newFake(busy), nil
		}
		return f, nil
	}})
	takes(t, k, "a", 1)
	for range 1000 {
		takes(t, k, "busy", 1)
	}
	require.Equal(t, 2, k.Len())
	f.idle.Store(int64(10 * time.Second))
	for range 1000 {
		takes(t, k, "busy", 1)
	}
	require.Equal(t, map[string]bool{"busy": true}, live(k))
}

// The limiter is closed before OnEvict is called. OnEvict may use the Keyed.
func TestOnEvict(t *testing.T) {
	f := newFake(time.Hour)
	var told []string
	var k *keyed
	k = newKeyed(t, options{
		New: func(string) (core.Limiter, error) { return f, nil },
		OnEvict: func(key string, l core.Limiter) {
			require.Equal(t, int32(1), f.closed.Load())
			require.Same(t, f, l)
			_, ok := k.Get(key)
			require.False(t, ok)
			require.Zero(t, k.Sweep())
			told = append(told, key)
		},
	})
	takes(t, k, "a", 1)
	testkit.Bubble(t, "", func(t *testing.T) { require.Equal(t, 1, k.Sweep()) })
	require.Equal(t, []string{"a"}, told)
}

// evictions makes a Keyed of n idle partitions and asks it once for a new key. onEvict is OnEvict's
// body. It returns how deep the calls of OnEvict were in each other, and how many there were.
func evictions(t *testing.T, n, maxPartitions int, onEvict func(k *partition.Keyed[int, int], key int)) (deepest, calls int) {
	t.Helper()
	var k *partition.Keyed[int, int]
	var mu sync.Mutex
	depth := 0
	enter := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		depth += by
		deepest = max(deepest, depth)
		calls += max(by, 0)
	}
	k = core.Must(partition.New(partition.Options[int, int]{
		Key:           func(i int) int { return i },
		New:           func(int) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
		MaxPartitions: maxPartitions,
		OnEvict: func(key int, _ core.Limiter) {
			enter(1)
			defer enter(-1)
			onEvict(k, key)
		},
	}))
	for i := range n {
		k.TryAcquire(i, 1)
	}
	require.Zero(t, calls)
	time.Sleep(time.Minute)
	k.TryAcquire(-1, 1)
	return deepest, calls
}

// Requests of OnEvict do not evict: one request does its share of the sweeping and no more, however many
// partitions are idle.
func TestOnEvictAsksTheKeyed(t *testing.T) {
	n := 20_000
	if testing.Short() || testkit.Race {
		n = 2_000
	}
	for name, onEvict := range map[string]func(k *partition.Keyed[int, int], key int){
		"the same key": func(k *partition.Keyed[int, int], key int) { k.TryAcquire(key, 1) },
		"other keys": func(k *partition.Keyed[int, int], key int) {
			k.TryAcquire(-2*key-2, 1)
			k.TryAcquire(-2*key-3, 1)
		},
		"many requests": func(k *partition.Keyed[int, int], key int) {
			for range 100 {
				k.TryAcquire(key, 1)
			}
		},
		"for":     func(k *partition.Keyed[int, int], key int) { partition.For(k, key).Available() },
		"a sweep": func(k *partition.Keyed[int, int], _ int) { k.Sweep() },
		"on another goroutine": func(k *partition.Keyed[int, int], key int) {
			var wg sync.WaitGroup
			wg.Go(func() { k.TryAcquire(key, 1) })
			wg.Wait()
		},
	} {
		for _, room := range []int{n, n + n} {
			testkit.Bubble(t, name, func(t *testing.T) {
				deepest, calls := evictions(t, n, room, onEvict)
				require.LessOrEqual(t, deepest, 1)
				require.LessOrEqual(t, calls, 20)
			})
		}
	}
}

// A limiter's own methods are called while partitions are looked at. They may ask the Keyed too.
func TestLimitersThatAskTheKeyed(t *testing.T) {
	const n = 2_000
	testkit.Bubble(t, "", func(t *testing.T) {
		var k *keyed
		depth, deepest := 0, 0
		ask := func(key string) {
			depth++
			deepest = max(deepest, depth)
			k.TryAcquire(key+"'", 1)
			depth--
		}
		k = newKeyed(t, options{
			New: func(key string) (core.Limiter, error) {
				l := newFake(time.Hour)
				l.onClose = func() error { ask(key); return nil }
				return askingIdler{l, func() { ask(key + "i") }}, nil
			},
			MaxPartitions: n,
		})
		for i := range 2 * n {
			k.TryAcquire(string(rune('0'+i)), 1)
		}
		k.Sweep()
		require.LessOrEqual(t, deepest, 2, "IdleFor, and then Close")
	})
}

type askingIdler struct {
	*fake
	ask func()
}

// What is dropped while OnEvict runs is told of by a later call: by Close, at the latest. OnEvict is called once for each
// limiter, by one call at a time. Others make room meanwhile. If too many are to be told of, requests for new keys wait for OnEvict, for a second.
func TestOnEvictIsToldLater(t *testing.T) {
	for _, end := range []string{"Sweep", "requests", "Close"} {
		testkit.Bubble(t, end, func(t *testing.T) {
			hold := make(chan struct{})
			told, at := map[core.Limiter]int{}, atomic.Int32{}
			k := newKeyed(t, options{
				MaxPartitions: 8,
				OnEvict: func(_ string, l core.Limiter) {
					require.Equal(t, int32(1), at.Add(1))
					told[l]++
					<-hold
					at.Add(-1)
				},
			})
			const keys = 1200
			for i := range keys {
				go func() {
					l, _ := k.Acquire(t.Context(), strconv.Itoa(i), 1)
					l.Release()
				}()
				synctest.Wait()
			}
			require.Zero(t, k.Counts().Overflowed, "they wait for OnEvict")
			time.Sleep(time.Second)
			synctest.Wait()
			c := k.Counts()
			require.Len(t, told, 1, "OnEvict still runs")
			require.Equal(t, uint64(1+1024), c.Dropped, "and so many wait")
			require.Equal(t, uint64(keys-8-1025), c.Overflowed, "whoever drops one has its place")
			start := time.Now()
			_, err := k.Acquire(t.Context(), "late", 1)
			require.ErrorIs(t, err, partition.ErrFull)
			require.Equal(t, start, time.Now(), "OnEvict was waited for in vain")
			switch end {
			case "Close":
				require.NoError(t, k.Close())
				close(hold)
				synctest.Wait()
			case "Sweep":
				close(hold)
				synctest.Wait()
				k.Sweep()
			default:
				close(hold)
				synctest.Wait()
				for range 1500 * callsPerSweep {
					k.TryAcquire("1199", 1).Release()
				}
			}
			require.Len(t, told, int(k.Counts().Dropped))
			for _, n := range told {
				require.Equal(t, 1, n)
			}
		})
	}
}

const callsPerSweep = 32

func (a askingIdler) IdleFor() (time.Duration, bool) {
	a.ask()
	return a.fake.IdleFor()
}

// busyContext does something when it is asked for the n-th time whether it is done.
type busyContext struct {
	context.Context

	n  int
	do func()
}

// A partition that is dropped between the look for it and the look at its limiter is as if it
// had been dropped before: the request gets another.
func TestDroppedUnderARequest(t *testing.T) {
	for name, limiter := range kinds(1, time.Second) {
		if name == "theirs" {
			continue // the request is in it
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				evicted := 0
				k := newKeyed(t, options{
					New:     func(string) (core.Limiter, error) { return limiter(), nil },
					OnEvict: func(string, core.Limiter) { evicted++ },
				})
				takes(t, k, "a", 1).Release()
				old, _ := k.Get("a")
				<-time.NewTimer(2 * time.Second).C
				see(t, k)
				<-time.NewTimer(time.Minute).C
				ctx := &busyContext{t.Context(), 2, func() { k.Sweep() }}
				lease, err := k.Acquire(ctx, "a", 1)
				require.NoError(t, err)
				require.Equal(t, 1, evicted)
				require.Equal(t, uint64(2), k.Counts().Created)
				require.Equal(t, core.ErrClosed, old.TryAcquire(1).Err())
				refused(t, k, "a", 1, core.ErrRejected)
				lease.Refund()
				takes(t, k, "a", 1)
			})
		})
	}
}

// A limiter that its owner closed rejects, until it is dropped like any other.
func TestClosedByItsOwner(t *testing.T) {
	for name, limiter := range kinds(1, time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return limiter(), nil }})
				takes(t, k, "a", 1).Release()
				l, _ := k.Get("a")
				require.NoError(t, l.(interface{ Close() error }).Close())
				for range 10 {
					refused(t, k, "a", 1, core.ErrClosed)
					_, err := k.Acquire(t.Context(), "a", 1)
					require.Equal(t, core.ErrClosed, err)
				}
				<-time.NewTimer(2 * time.Second).C
				see(t, k)
				<-time.NewTimer(time.Minute).C
				require.Equal(t, 1, k.Sweep())
				takes(t, k, "a", 1)
			})
		})
	}
}

// If OnEvict panics, the others are still told, and the sweep panics.
func TestOnEvictPanics(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		told := 0
		k := newKeyed(t, options{OnEvict: func(string, core.Limiter) { told++; panic(told) }})
		for _, key := range []string{"a", "b", "c"} {
			takes(t, k, key, 1).Release()
		}
		see(t, k)
		time.Sleep(time.Minute)
		require.PanicsWithValue(t, 1, func() { k.Sweep() })
		require.Equal(t, 3, told)
		require.Zero(t, k.Len())
	})
}

// A request whose share of the sweeping ends in a panic of OnEvict takes no permit.
func TestPanicOfOnEvictTakesNoPermit(t *testing.T) {
	ask := map[string]func(*keyed){
		"TryAcquire": func(k *keyed) { takes(t, k, "used", 1).Refund() },
		"Acquire":    func(k *keyed) { must(k.Acquire(t.Context(), "used", 1)).Refund() },
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeyed(t, options{
					New:     func(string) (core.Limiter, error) { return semaphore("", 6), nil },
					OnEvict: func(string, core.Limiter) { panic("odd") },
				})
				takes(t, k, "idle", 1).Release()
				takes(t, k, "used", 1)
				see(t, k)
				time.Sleep(time.Minute)
				panicked := false
				for !panicked {
					func() {
						defer func() { panicked = recover() != nil }()
						ask(k)
					}()
				}
				s, _ := k.Statistics("used")
				require.Equal(t, 5, s.Available)
			})
		})
	}
}

func (c *busyContext) Err() error {
	c.n--
	if c.n == 0 {
		c.do()
	}
	return c.Context.Err()
}
