package holdback_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/holdback"
)

// keys are held back for reasons in words.
type keys = holdback.Keys[string]

func held(t *testing.T, k *keys, key string, want time.Duration, wantWhy string) {
	t.Helper()
	left, why := k.Held(key)
	require.Equal(t, want, left)
	require.Equal(t, wantWhy, why)
}

// always lets whoever waits go on waiting.
func always(time.Duration, string) error { return nil }

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
		k.Hold("a", time.Second, "busy") // a shorter one too
		held(t, &k, "a", time.Second, "busy")
		time.Sleep(time.Second)
		held(t, &k, "a", 0, "")
		k.Hold("a", time.Hour, "closed")
		k.Hold("a", 0, "")
		held(t, &k, "a", 0, "")
		k.Hold("b", -1, "")
		held(t, &k, "b", 0, "")
		k.Hold("a", 1<<63-1, "for ever")
		left, _ := k.Held("a")
		require.Greater(t, left, 1000*time.Hour)
	})
}

func TestWait(t *testing.T) {
	// wait returns how long a wait took that began when the key was held back for a second.
	wait := func(t *testing.T, ctx context.Context, meanwhile func(*keys)) (time.Duration, error) {
		t.Helper()
		var k keys
		k.Hold("a", time.Second, "busy")
		begun := time.Now()
		if meanwhile != nil {
			time.AfterFunc(time.Second/2, func() { meanwhile(&k) })
		}
		err := k.Wait(ctx, "a", always)
		return time.Since(begun), err
	}
	for name, test := range map[string]struct {
		meanwhile func(*keys)
		want      time.Duration
	}{
		"to its end":    {nil, time.Second},
		"moved later":   {func(k *keys) { k.Hold("a", time.Minute, "busy") }, time.Minute + time.Second/2},
		"moved earlier": {func(k *keys) { k.Hold("a", time.Millisecond, "busy") }, time.Second/2 + time.Millisecond},
		"let go":        {func(k *keys) { k.Hold("a", 0, "") }, time.Second / 2},
		"another key":   {func(k *keys) { k.Hold("b", time.Hour, "busy") }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, err := wait(t, t.Context(), test.meanwhile)
				require.NoError(t, err)
				require.Equal(t, test.want, took)
			})
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			took, err := wait(t, ctx, nil)
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, time.Millisecond, took)
		})
	})
}

// may is asked before each wait, and not for a key that is not held back.
func TestMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		never := errors.New("never")
		refuse := func(time.Duration, string) error { return never }
		require.NoError(t, k.Wait(t.Context(), "a", refuse))
		k.Hold("a", time.Second, "busy")
		require.Equal(t, never, k.Wait(t.Context(), "a", refuse))
		time.AfterFunc(time.Second/2, func() { k.Hold("a", time.Minute, "very busy") })
		var asked []string
		err := k.Wait(t.Context(), "a", func(left time.Duration, why string) error {
			if asked = append(asked, fmt.Sprint(left, " ", why)); left > time.Second {
				return never
			}
			return nil
		})
		require.Equal(t, never, err)
		require.Equal(t, []string{"1s busy", "1m0s very busy"}, asked)
	})
}

// Keys whose time is over take no memory for long: a sweep frees them.
func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keys
		for i := range 10_000 {
			k.Hold(fmt.Sprint("short ", i), time.Second, "busy")
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, k.Len(), 3000) // 1,000 of them are held back
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
					_ = k.Wait(ctx, key, always)
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
