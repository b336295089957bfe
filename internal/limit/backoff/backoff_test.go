package backoff_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/backoff"
)

// keys have reasons in words.
type keys = backoff.Keys[string]

// wait waits for the key, without a limiter.
func wait(ctx context.Context, k *keys, key string) error {
	_, err := k.Acquire(ctx, key, nil, 1)
	return err
}

// held asserts for how long the key is on hold, and why. 0 means that it is not.
func held(t *testing.T, k *keys, key string, want time.Duration, wantWhy string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	err := wait(ctx, k, key)
	if want == 0 {
		require.NoError(t, err)
		return
	}
	rejection := new(backoff.HeldError[string])
	require.ErrorAs(t, err, &rejection)
	require.Equal(t, want, rejection.Rejected.RetryAfter)
	require.Equal(t, wantWhy, rejection.Why)
}

// within asserts that d is at least want, and at most a tenth of hold more.
func within(t *testing.T, d, want, hold time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, d, want)
	require.LessOrEqual(t, d, want+hold/10)
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		held(t, &k, "a", 0, "")
		k.Hold("a", time.Second, "busy")
		held(t, &k, "a", time.Second, "busy")
		held(t, &k, "b", 0, "")
		time.Sleep(999 * time.Millisecond)
		held(t, &k, "a", time.Millisecond, "busy")
		k.Hold("a", time.Minute, "very busy") // in place of the first
		held(t, &k, "a", time.Minute, "very busy")
		for _, shorter := range []time.Duration{time.Second, 0, -1, time.Minute} { // do not end it
			k.Hold("a", shorter, "busy")
			held(t, &k, "a", time.Minute, "very busy")
		}
		time.Sleep(time.Minute)
		held(t, &k, "a", 0, "")
		k.Hold("a", 0, "")
		held(t, &k, "a", 0, "")
		k.Hold("b", -1, "")
		held(t, &k, "b", 0, "")
		k.Hold("a", 1<<63-1, "forever")
		held(t, &k, "a", 1<<63-1, "forever")
	})
}

func TestAcquire(t *testing.T) {
	// took returns how long a wait takes that starts when the key is put on hold for a second.
	took := func(ctx context.Context, meanwhile func(*keys)) (time.Duration, error) {
		var k keys
		k.Hold("a", time.Second, "busy")
		start := time.Now()
		if meanwhile != nil {
			time.AfterFunc(time.Second/2, func() { meanwhile(&k) })
		}
		err := wait(ctx, &k, "a")
		return time.Since(start), err
	}
	for name, test := range map[string]struct {
		meanwhile  func(*keys)
		want, hold time.Duration
	}{
		"to its end":    {nil, time.Second, time.Second},
		"moved later":   {func(k *keys) { k.Hold("a", time.Minute, "busy") }, time.Minute + time.Second/2, time.Minute},
		"a shorter one": {func(k *keys) { k.Hold("a", time.Millisecond, "busy") }, time.Second, time.Second},
		"one of 0":      {func(k *keys) { k.Hold("a", 0, "") }, time.Second, time.Second},
		"another key":   {func(k *keys) { k.Hold("b", time.Hour, "busy") }, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := took(t.Context(), test.meanwhile)
				require.NoError(t, err)
				within(t, d, test.want, test.hold)
			})
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			d, err := took(ctx, nil)
			require.Equal(t, context.Canceled, err)
			require.Equal(t, time.Millisecond, d)
		})
	})
	t.Run("a deadline", func(t *testing.T) {
		for name, test := range map[string]struct{ deadline, want, hold time.Duration }{
			"too soon":     {time.Second - 1, 0, 0},
			"just in time": {time.Second, time.Second, 0},
			"soon":         {time.Second + 10*time.Millisecond, time.Second, 50 * time.Millisecond}, // half is left for the answer
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
					defer cancel()
					d, err := took(ctx, nil)
					require.Equal(t, test.want == 0, err != nil)
					within(t, d, test.want, test.hold)
				})
			})
		}
	})
}

// Callers that waited for one hold come one by one over the tenth after it, and none before its end.
func TestCallersAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		k.Hold("a", time.Minute, "busy")
		start := time.Now()
		var mu sync.Mutex
		instants := make(map[time.Duration]bool)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				assert.NoError(t, wait(t.Context(), &k, "a"))
				mu.Lock()
				defer mu.Unlock()
				instants[time.Since(start)] = true
			})
		}
		all.Wait()
		require.Greater(t, len(instants), 90)
		first, last := time.Hour, time.Duration(0)
		for at := range instants {
			within(t, at, time.Minute, time.Minute)
			first, last = min(first, at), max(last, at)
		}
		// That none of 100 is in a fifth of the tenth happens once in 5 billion runs.
		require.Less(t, first, time.Minute+time.Second*6/5)
		require.Greater(t, last, time.Minute+time.Second*24/5)
	})
}

// Permits that were granted while another response came are returned, and taken again after the hold.
func TestAHoldThatComesDuringAWaitForPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 1}))
		time.AfterFunc(time.Second, l.TryAcquire(1).Release)
		var k keys
		time.AfterFunc(time.Second/2, func() { k.Hold("a", 10*time.Second, "busy") })
		start := time.Now()
		time.AfterFunc(2*time.Second, func() { assert.Equal(t, 1, l.Available()) })
		lease, err := k.Acquire(t.Context(), "a", l, 1)
		require.NoError(t, err)
		require.True(t, lease.Acquired())
		within(t, time.Since(start), 10*time.Second+time.Second/2, 10*time.Second)
		_, err = k.Acquire(t.Context(), "a", l, 2)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
	})
}

// A nil Keys has no key on hold.
func TestNil(t *testing.T) {
	var k *keys
	require.NoError(t, wait(t.Context(), k, "a"))
}

// Keys that have expired take no memory for long: a sweep frees them.
func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		for i := range 10_000 {
			k.Hold(fmt.Sprint("short ", i), time.Second, "busy")
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, k.Len(), 3000) // 1,000 of them are on hold
	})
}

func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		var all sync.WaitGroup
		for i := range 50 {
			key := strconv.Itoa(i % 5)
			all.Go(func() {
				for j := range 50 {
					if (i+j)%7 == 0 {
						k.Hold(key, time.Duration(j)*time.Millisecond, "busy")
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
					_ = wait(ctx, &k, key)
					cancel()
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		for i := range 5 {
			held(t, &k, strconv.Itoa(i), 0, "")
		}
		require.Zero(t, k.Len())
	})
}

// The random time after a hold does not make a long one overflow.
func TestALongHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		k.Hold("a", math.MaxInt64-1, "")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		start := time.Now()
		_, err := k.Acquire(ctx, "a", nil, 1)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, time.Hour, time.Since(start))
	})
}
