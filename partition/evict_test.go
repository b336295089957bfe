package partition_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

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

func (a askingIdler) IdleFor() (time.Duration, bool) {
	a.ask()
	return a.fake.IdleFor()
}

// Other goroutines make room while OnEvict runs for one of them.
func TestRoomIsMadeWhileOnEvictRuns(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		hold := make(chan struct{})
		k := newKeyed(t, options{
			New:           func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
			MaxPartitions: 8,
			OnEvict:       func(string, core.Limiter) { <-hold },
		})
		for i := range 8 {
			takes(t, k, string(rune('a'+i)), 1)
		}
		time.Sleep(time.Second)
		for i := range 8 {
			go k.TryAcquire(string(rune('A'+i)), 1)
		}
		synctest.Wait()
		// One takes the place that another has made, and the next makes another.
		require.GreaterOrEqual(t, k.Counts().Dropped, uint64(4))
		close(hold)
		synctest.Wait()
		require.Equal(t, 8, k.Len())
	})
}
