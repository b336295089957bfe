package partition_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// behind makes a Keyed for two partitions whose OnEvict hangs until the returned function is called, and asks it for new
// keys by TryAcquire until one finds no room.
func behind(t *testing.T, limiter func() core.Limiter) (k *keyed, granted int, end func()) {
	t.Helper()
	hold := make(chan struct{})
	k = newKeyed(t, options{
		MaxPartitions: 2,
		New:           func(string) (core.Limiter, error) { return limiter(), nil },
		OnEvict:       func(string, core.Limiter) { <-hold },
	})
	takes(t, k, "first", 1).Release()
	takes(t, k, "stays idle", 1).Release()
	go k.TryAcquire("second", 0)
	synctest.Wait()
	for ; ; granted++ {
		l := k.TryAcquire(strconv.Itoa(granted), 1)
		if !l.Acquired() {
			require.ErrorIs(t, l.Err(), partition.ErrFull)
			return k, granted, func() { close(hold); synctest.Wait() }
		}
		l.Release()
	}
}

var idleLimiters = map[string]func() core.Limiter{
	"ours":   func() core.Limiter { return semaphore("", 1) },
	"theirs": func() core.Limiter { return newFake(0) },
}

// A try does not wait for OnEvict: it drops a partition, of which a later call tells. If too many are to be told of, it is
// rejected after 10 ms.
func TestATryWaitsForOnEvictForAMoment(t *testing.T) {
	for name, limiter := range idleLimiters {
		testkit.Bubble(t, name, func(t *testing.T) {
			start := time.Now()
			k, granted, end := behind(t, limiter)
			require.Equal(t, 1024, granted)
			go func() { _, _ = k.Acquire(t.Context(), "waits", 1) }()
			synctest.Wait()
			for _, key := range []string{"waits", "other"} {
				refused(t, k, key, 1, partition.ErrFull)
				require.Zero(t, partition.For[string](k, key).(core.Reporter).Statistics())
			}
			require.Equal(t, start.Add(5*10*time.Millisecond), time.Now())
			end()
			require.Contains(t, live(k), "waits")
		})
	}
}

// The wait of an Acquire for OnEvict ends with its context, with Close, and when OnEvict returns.
func TestTheWaitForOnEvictEnds(t *testing.T) {
	for want, by := range map[error]func(k *keyed, cancel, end func()){
		context.Canceled: func(_ *keyed, cancel, _ func()) { cancel() },
		core.ErrClosed:   func(k *keyed, _, _ func()) { _ = k.Close() },
		nil:              func(_ *keyed, _, end func()) { end() },
	} {
		testkit.Bubble(t, "", func(t *testing.T) {
			k, _, end := behind(t, idleLimiters["theirs"])
			start := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := make(chan error)
			for range 2 {
				go func() {
					_, err := k.Acquire(ctx, "waits", 1)
					answer <- err
				}()
			}
			synctest.Wait()
			by(k, cancel, end)
			for range 2 {
				require.Equal(t, want, <-answer)
			}
			require.Equal(t, start, time.Now())
			if want != nil {
				end()
			}
		})
	}
}

// Once OnEvict has returned after a hang, requests wait for it again.
func TestAHangOfOnEvictIsForgotten(t *testing.T) {
	testkit.Bubble(t, "", func(t *testing.T) {
		var pause time.Duration
		k := newKeyed(t, options{MaxPartitions: 8, OnEvict: func(string, core.Limiter) { time.Sleep(pause) }})
		flood := func(prefix string) (refused int) {
			answers := make(chan error)
			const n = 1100
			for i := range n {
				go func() {
					l, err := k.Acquire(t.Context(), prefix+strconv.Itoa(i), 1)
					l.Release()
					answers <- err
				}()
				synctest.Wait()
			}
			for range n {
				if <-answers != nil {
					refused++
				}
			}
			return refused
		}
		pause = time.Minute
		require.NotZero(t, flood("a"))
		pause = time.Microsecond
		require.Zero(t, flood("b"))
	})
}

// OnEvict may ask for new keys: room is made for them at once, and Sweep ends.
func TestRequestsOfOnEvictFindRoom(t *testing.T) {
	for name, limiter := range idleLimiters {
		testkit.Bubble(t, name, func(t *testing.T) {
			var k *keyed
			told := 0
			k = newKeyed(t, options{
				MaxPartitions: 2,
				New:           func(string) (core.Limiter, error) { return limiter(), nil },
				OnEvict: func(string, core.Limiter) {
					told++
					if told == 1000 {
						t.Error("it does not end")
					}
					if told < 1000 {
						for range 3 {
							takes(t, k, "of OnEvict "+strconv.Itoa(told), 1).Release()
						}
					}
				},
			})
			start := time.Now()
			for i := range 10 {
				takes(t, k, strconv.Itoa(i), 1).Release()
			}
			require.Equal(t, start, time.Now())
			k.Sweep()
			time.Sleep(time.Minute)
			k.Sweep()
		})
	}
}
