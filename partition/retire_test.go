package partition_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// fixed and sliding return windows of so many permits, with a queue.
func fixed(permits int, window time.Duration) *core.FixedWindow {
	l, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: permits, Window: window, QueueLimit: 1000})
	if err != nil {
		panic(err)
	}
	return l
}

func sliding(permits int, window time.Duration) *core.SlidingWindow {
	l, err := core.NewSlidingWindow(core.SlidingWindowOptions{
		PermitLimit: permits, Window: window, SegmentsPerWindow: 2, QueueLimit: 1000,
	})
	if err != nil {
		panic(err)
	}
	return l
}

// kinds are a limiter of each kind, of so many permits; rates come back in so long.
func kinds(permits int, back time.Duration) map[string]func() core.Limiter {
	return map[string]func() core.Limiter{
		"concurrency": func() core.Limiter { return semaphore("", permits) },
		"bucket":      func() core.Limiter { return bucket(permits, back/time.Duration(permits)) },
		"fixed":       func() core.Limiter { return fixed(permits, back) },
		"sliding":     func() core.Limiter { return sliding(permits, back) },
		"theirs":      func() core.Limiter { return slow{semaphore("", permits)} },
	}
}

// slow is somebody's limiter that takes its time to answer whether it is idle.
type slow struct{ *core.ConcurrencyLimiter }

func (s slow) IdleFor() (time.Duration, bool) {
	d, idle := s.ConcurrencyLimiter.IdleFor()
	for range 5 {
		runtime.Gosched()
	}
	return d, idle
}

// busyContext does something when it is asked for the n-th time whether it is done.
type busyContext struct {
	context.Context

	n  int
	do func()
}

func (c *busyContext) Err() error {
	c.n--
	if c.n == 0 {
		c.do()
	}
	return c.Context.Err()
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
				k.Refund("a", lease)
				takes(t, k, "a", 1)
			})
		})
	}
}

// What its owner closes refuses, until it is dropped like any other.
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

// A limiter that never was made refuses, and is never dropped.
func TestZeroLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return new(core.TokenBucket), nil }})
		refused(t, k, "a", 1, core.ErrClosed)
		<-time.NewTimer(time.Hour).C
		for range 100 {
			refused(t, k, "a", 1, core.ErrClosed)
		}
		require.Equal(t, map[string]bool{"a": true}, live(k))
	})
}

// A request whose share of the sweeping ends in a panic of OnEvict takes no permit.
func TestPanicOfOnEvictTakesNoPermit(t *testing.T) {
	for name, limiter := range kinds(6, time.Hour) {
		for _, wait := range []bool{false, true} {
			t.Run(name+"/"+strconv.FormatBool(wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newKeyed(t, options{
						New: func(key string) (core.Limiter, error) {
							if key == "used" {
								return limiter(), nil
							}
							return semaphore("", 1), nil
						},
						OnEvict: func(string, core.Limiter) { panic("odd") },
					})
					takes(t, k, "idle", 1).Release()
					takes(t, k, "used", 1)
					see(t, k)
					<-time.NewTimer(time.Minute).C
					ask := func() (panicked bool) {
						defer func() { panicked = recover() != nil }()
						if !wait {
							k.Refund("used", takes(t, k, "used", 1))
							return false
						}
						l, err := k.Acquire(t.Context(), "used", 1)
						require.NoError(t, err)
						k.Refund("used", l)
						return false
					}
					for !ask() {
					}
					s, _ := k.Statistics("used")
					require.Equal(t, 5, s.Available)
				})
			})
		}
	}
}
