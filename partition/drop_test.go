package partition_test

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// A partition is dropped at the instant that its limiter says it has been idle for IdleTimeout.
func TestDroppedWhenIdleForLongEnough(t *testing.T) {
	for name, c := range map[string]struct {
		limiter func() core.Limiter
		idleAt  time.Duration // after a permit was taken and released at once
	}{
		"semaphore": {func() core.Limiter { return semaphore("", 3) }, 0},
		"bucket":    {func() core.Limiter { return bucket(3, time.Second) }, time.Second},
		"unlimited": {core.Unlimited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeyed(t, options{
					IdleTimeout: 5 * time.Second,
					New:         func(string) (core.Limiter, error) { return c.limiter(), nil },
				})
				takes(t, k, "a", 1).Release()
				<-time.NewTimer(c.idleAt + 1).C
				see(t, k)
				<-time.NewTimer(5*time.Second - 2).C
				require.Zero(t, k.Sweep())
				<-time.NewTimer(2).C
				require.Equal(t, 1, k.Len(), "nothing happens while nobody calls")
				require.Equal(t, 1, k.Sweep())
				require.Equal(t, partition.Counts{Created: 1, Dropped: 1}, k.Counts())
				_, ok := k.Get("a")
				require.False(t, ok)
				takes(t, k, "a", 3)
			})
		})
	}
}

// A limiter that keys share stays open when their partitions are dropped, if New returns a chain of it.
func TestSharedLimiterIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := bucket(3, time.Second)
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return core.Chain(shared) }})
		takes(t, k, "a", 1)
		takes(t, k, "b", 2)
		require.Zero(t, shared.Available())
		<-time.NewTimer(time.Minute).C
		require.Equal(t, 2, k.Sweep())
		takes(t, k, "a", 3)
		require.Zero(t, shared.Available())
	})
}

// Default of IdleTimeout.
func TestDroppedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{})
		takes(t, k, "a", 1).Release()
		see(t, k)
		<-time.NewTimer(10*time.Second - 1).C
		require.Zero(t, k.Sweep())
		<-time.NewTimer(1).C
		require.Equal(t, 1, k.Sweep())
	})
}

// What is held, waited for, or of no known idleness is never dropped.
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

// A limiter that says it is idle while a request is in it is not dropped.
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

// A request that comes and goes between the limiter's word that it is idle and the drop keeps
// the partition: it may have taken permits.
func TestNotDroppedIfARequestComesMeanwhile(t *testing.T) {
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

// Of n live partitions all that may be dropped are gone after some 4n+64 further requests, on
// the average, whatever the requests are and however they end.
func TestRequestsSweep(t *testing.T) {
	limiters := map[string]func(string) core.Limiter{
		"ours":   func(key string) core.Limiter { return semaphore(key, 1) },
		"theirs": func(string) core.Limiter { return newFake(20 * time.Second) },
	}
	requests := map[string]func(k *keyed, n, i int){
		"of one live key":    func(k *keyed, _, _ int) { k.TryAcquire("0", 1).Release() },
		"of one new key":     func(k *keyed, _, _ int) { k.TryAcquire("new", 1).Release() },
		"of new keys":        func(k *keyed, _, i int) { k.TryAcquire("new"+strconv.Itoa(i), 1) },
		"of new keys, twice": func(k *keyed, _, i int) { k.TryAcquire("new"+strconv.Itoa(i/2), 1) },
		"of new keys, six":   func(k *keyed, _, i int) { k.TryAcquire("new"+strconv.Itoa(i/6), 1) },
		"of other keys":      func(k *keyed, n, i int) { k.TryAcquire(strconv.Itoa(n+i%n), 1).Release() },
		"through Acquire":    func(k *keyed, n, i int) { _, _ = k.Acquire(nilContext{}, strconv.Itoa(n+i%n), 0) },
		"that are refused":   func(k *keyed, _, _ int) { k.TryAcquire("new", 1) },
		"that probe":         func(k *keyed, _, _ int) { k.TryAcquire("new", 0) },
		"that are too much":  func(k *keyed, _, _ int) { k.TryAcquire("new", 1000) },
		"of a closed limiter": func(k *keyed, _, _ int) {
			if l, ok := k.Get("new"); ok {
				_ = l.(io.Closer).Close()
			}
			k.TryAcquire("new", 1)
		},
		"of For": func(k *keyed, _, _ int) { partition.For[string](k, "new").TryAcquire(1).Release() },
	}
	for kind, limiter := range limiters {
		for what, request := range requests {
			for _, n := range []int{1, 3, 10, 333} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, what, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						calls, allowed := 0, 0
						for range max(5, 200/n) { // the average is far from what is allowed
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

// A key that is asked for all the time does not keep its idle partition: probes take nothing.
func TestProbedPartitionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{})
		takes(t, k, "a", 1).Release()
		see(t, k)
		<-time.NewTimer(10 * time.Second).C
		for range 1000 {
			k.TryAcquire("a", 0)
		}
		require.Equal(t, uint64(1), k.Counts().Dropped)
		require.Equal(t, 1, k.Len())
	})
}

// A user's limiter that becomes idle without a request, as its owner says, is seen in time.
func TestAnswersThatChange(t *testing.T) {
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

// The limiter is closed, then OnEvict is told. It may use the Keyed.
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
			k.Sweep()
			told = append(told, key)
		},
	})
	takes(t, k, "a", 1)
	require.Equal(t, 1, k.Sweep())
	require.Equal(t, []string{"a"}, told)
}

// Nobody can tell that a partition was dropped: a bucket that is dropped is full.
func TestNobodyCanTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{
			IdleTimeout: 1, // as soon as may be
			New:         func(string) (core.Limiter, error) { return bucket(5, time.Second), nil },
		})
		whole := bucket(5, time.Second)
		for i := range 200 {
			for n := range 3 {
				want := whole.TryAcquire(n)
				got := k.TryAcquire("a", n)
				require.Equal(t, want.Acquired(), got.Acquired())
				wantAfter, _ := core.RetryAfter.From(want)
				gotAfter, _ := core.RetryAfter.From(got)
				require.Equal(t, wantAfter, gotAfter)
			}
			<-time.NewTimer(time.Duration(i*i%7919) * time.Millisecond).C
			k.Sweep()
			<-time.NewTimer(1).C
			k.Sweep()
		}
		require.Greater(t, k.Counts().Dropped, uint64(10))
	})
}
