package partition_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// One of the first requests with a key calls New. The others wait for it, but requests with other
// keys do not.
func TestCreatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(map[string]int)
		k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
			if key == "slow" {
				calls[key]++
				<-time.NewTimer(time.Second).C
			}
			return semaphore(key, 100), nil
		}})
		start := time.Now()
		for i := range 10 {
			go func() {
				if i%2 == 0 {
					if err := k.TryAcquire("slow", 1).Err(); err != nil {
						t.Error(err)
					}
				} else if _, err := k.Acquire(t.Context(), "slow", 1); err != nil {
					t.Error(err)
				}
				if time.Since(start) != time.Second {
					t.Error("not when New was done")
				}
			}()
		}
		synctest.Wait()
		takes(t, k, "quick", 1)
		_, ok := k.Get("slow")
		require.False(t, ok, "it is not live yet")
		require.Equal(t, partition.Counts{Live: 1, Created: 1}, k.Counts())
		<-time.NewTimer(2 * time.Second).C
		synctest.Wait()
		require.Equal(t, 1, calls["slow"])
		s, _ := k.Statistics("slow")
		require.Equal(t, uint64(10), s.Granted)
	})
}

// An Acquire that waits for the New of another request ends with its context.
func TestWaitForNewIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
			<-time.NewTimer(time.Second).C
			return semaphore(key, 1), nil
		}})
		go k.TryAcquire("a", 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		l, err := k.Acquire(ctx, "a", 1)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, err, l.Err())
		require.Equal(t, time.Millisecond, time.Since(start))
		<-time.NewTimer(time.Second).C
		require.Equal(t, uint64(1), k.Counts().Created)
	})
}

func TestErrorOfNew(t *testing.T) {
	odd := errors.New("odd")
	var nilBucket *core.TokenBucket
	for name, c := range map[string]struct {
		limiter core.Limiter
		err     error
		says    string
	}{
		"error":       {nil, odd, "odd"},
		"nil":         {nil, nil, "nil limiter"},
		"typed nil":   {nilBucket, nil, "nil limiter"},
		"nil and err": {nilBucket, odd, "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			fail := true
			k := newKeyed(t, options{Name: "api", MaxPartitions: 1, New: func(key string) (core.Limiter, error) {
				if fail {
					return c.limiter, c.err
				}
				return semaphore(key, 1), nil
			}})
			err := k.TryAcquire("a", 1).Err()
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, `"api"`)
			l, err := k.Acquire(t.Context(), "a", 1)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, err, l.Err())
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			}
			require.Equal(t, partition.Counts{}, k.Counts(), "nothing is remembered")
			fail = false
			takes(t, k, "a", 1)
		})
	}
}

// A New that fails is called once for all that wait for it. The next request calls it again.
func TestAFailingNewAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		calls := 0
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) {
			calls++
			<-time.NewTimer(time.Second).C
			return nil, odd
		}})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				err := k.TryAcquire("a", 1).Err()
				if i%2 == 0 {
					_, err = k.Acquire(t.Context(), "b", 1)
				}
				if !errors.Is(err, odd) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2*time.Second, time.Since(start), "one of each key")
		require.Equal(t, 2, calls)
		require.ErrorIs(t, k.TryAcquire("a", 1).Err(), odd)
		require.Equal(t, 3, calls)
		require.Zero(t, k.Counts())
	})
}

// A New that panics, or ends its goroutine, leaves no trace. One of the requests that waited calls it again.
func TestNewThatDoesNotReturn(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic("odd") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				k := newKeyed(t, options{MaxPartitions: 1, New: func(key string) (core.Limiter, error) {
					calls++
					if calls == 1 {
						<-time.NewTimer(time.Second).C
						fail()
					}
					return semaphore(key, 5), nil
				}})
				go func() {
					defer func() { _ = recover() }()
					k.TryAcquire("a", 1)
				}()
				synctest.Wait()
				for range 5 {
					go k.TryAcquire("a", 1)
				}
				<-time.NewTimer(2 * time.Second).C
				synctest.Wait()
				require.Equal(t, 2, calls)
				require.Equal(t, partition.Counts{Live: 1, Created: 1}, k.Counts())
			})
		})
	}
}

// New and Key may use the Keyed for other keys.
func TestNewUsesTheKeyed(t *testing.T) {
	var k *keyed
	k = newKeyed(t, options{
		Key: func(s string) string {
			if k != nil && s == "child" {
				takes(t, k, "root", 1).Release()
			}
			return s
		},
		New: func(key string) (core.Limiter, error) {
			if key != "root" {
				takes(t, k, "root", 1).Release()
				for range k.All() {
					k.Sweep()
				}
			}
			return semaphore(key, 1), nil
		},
	})
	takes(t, k, "child", 1)
	require.Equal(t, map[string]bool{"root": true, "child": true}, live(k))
}

func TestKeyThatDoesNotEqualItself(t *testing.T) {
	k, err := partition.New(partition.Options[float64, float64]{
		Key: func(f float64) float64 { return f },
		New: func(float64) (core.Limiter, error) { return semaphore("", 1), nil },
	})
	require.NoError(t, err)
	for range 3 {
		require.ErrorContains(t, k.TryAcquire(math.NaN(), 1).Err(), "does not equal itself")
	}
	_, err = k.Acquire(t.Context(), math.NaN(), 1)
	require.ErrorContains(t, err, "does not equal itself")
	require.Error(t, partition.For[float64](k, math.NaN()).TryAcquire(1).Err())
	_, ok := k.Get(math.NaN())
	require.False(t, ok)
	core.Grant(1, nil).Refund()
	require.Zero(t, k.Counts())

	require.True(t, k.TryAcquire(0, 1).Acquired())
	require.False(t, k.TryAcquire(math.Copysign(0, -1), 1).Acquired(), "-0 equals 0")
}

// The table grows and shrinks while it is read, and loses no entry.
func TestManyKeys(t *testing.T) {
	const n = 5000
	f := newFake(busy)
	k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return f, nil }})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range n {
				if !k.TryAcquire(strconv.Itoa(i), 1).Acquired() {
					t.Error(i)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, partition.Counts{Live: n, Created: n}, k.Counts())
	require.Len(t, live(k), n)
	f.idle.Store(int64(time.Hour))
	require.Equal(t, n, k.Sweep())
	require.Equal(t, partition.Counts{Created: n, Dropped: n}, k.Counts())
	require.Empty(t, live(k))
	for i := range n {
		takes(t, k, strconv.Itoa(i), 1)
		_, ok := k.Get(strconv.Itoa(i))
		require.True(t, ok)
	}
}
