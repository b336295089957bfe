package partition_test

import (
	"context"
	"math/rand/v2"
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
				<-time.NewTimer(time.Minute).C
				ctx := &busyContext{t.Context(), 2, func() { require.Equal(t, 1, k.Sweep()) }}
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

// Whoever sweeps while it takes a permit, and has OnEvict panic, has taken none.
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
					<-time.NewTimer(time.Minute).C
					taken, panicked := 1, false
					for range 5 {
						func() {
							defer func() { panicked = recover() != nil || panicked }()
							if wait {
								_, err := k.Acquire(t.Context(), "used", 1)
								require.NoError(t, err)
							} else {
								takes(t, k, "used", 1)
							}
							taken++
						}()
					}
					require.True(t, panicked)
					require.Equal(t, 5, taken)
					s, _ := k.Statistics("used")
					require.Equal(t, 1, s.Available)
				})
			})
		}
	}
}

// Requests that a rate limiter refuses, grants, and lets wait are counted each, wherever
// they end: after 4n+16 of them all that may be dropped is gone.
func TestAllRequestsSweep(t *testing.T) {
	for name, limiter := range kinds(2, time.Second) {
		for _, n := range []int{1, 2, 7, 100} {
			t.Run(name+"/"+strconv.Itoa(n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newKeyed(t, options{New: func(string) (core.Limiter, error) { return limiter(), nil }})
					r := rand.New(rand.NewPCG(uint64(n), 3))
					done, cancel := context.WithCancel(t.Context())
					cancel()
					for round := range 20 {
						for i := range n {
							takes(t, k, "idle"+strconv.Itoa(i), 1).Release()
						}
						for range r.IntN(3 * n) { // wherever the counts and the hand are
							k.TryAcquire("busy"+strconv.Itoa(r.IntN(n)), r.IntN(3)).Release()
						}
						<-time.NewTimer(11 * time.Second).C
						before := k.Len()
						for i := range 4*before + 16 {
							key := "busy" + strconv.Itoa(i%n)
							switch r.IntN(5) {
							case 0, 1:
								k.TryAcquire(key, 1).Release()
							case 2:
								k.TryAcquire(key, r.IntN(4)).Release()
							case 3:
								l, _ := k.Acquire(t.Context(), key, 1)
								l.Release()
							case 4: // its context ends before it waits, or as soon as it does
								l, _ := k.Acquire(&endsLater{Context: t.Context(), done: done, looks: 2 + r.IntN(4)}, key, 2)
								l.Release()
							}
						}
						for key := range live(k) {
							require.NotContains(t, key, "idle", "round %d", round)
						}
					}
				})
			})
		}
	}
}

// The calls that a rate limiter does not number sweep as well: those that it refuses, of one
// key or of many, and probes.
func TestRefusedRequestsSweep(t *testing.T) {
	limiters := kinds(1, 10*time.Hour)
	delete(limiters, "concurrency")
	for name, limiter := range limiters {
		for _, used := range []int{1, 2, 30} {
			t.Run(name+"/"+strconv.Itoa(used), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const n = 60
					var fakes []*fake
					k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
						if key[0] == 'b' {
							return limiter(), nil
						}
						f := newFake(busy) // is asked at every other visit
						fakes = append(fakes, f)
						return f, nil
					}})
					for i := range n {
						takes(t, k, "idle"+strconv.Itoa(i), 1).Release()
					}
					for i := range used {
						takes(t, k, "busy"+strconv.Itoa(i), 1)
					}
					for _, f := range fakes {
						f.idle.Store(int64(time.Hour))
					}
					for i := range 4*(n+used) + 16 {
						require.False(t, k.TryAcquire("busy"+strconv.Itoa(i%used), i/used%2).Acquired())
					}
					require.Equal(t, used, k.Len())
				})
			})
		}
	}
}

// Requests for a partition whose limiter its owner has closed, or never made, sweep too.
func TestRefusalsOfClosedLimitersSweep(t *testing.T) {
	limiters := kinds(1, time.Hour)
	limiters["zero"] = func() core.Limiter { return new(core.TokenBucket) }
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 50
				var fakes []*fake
				k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
					if key == "closed" {
						return limiter(), nil
					}
					f := newFake(busy)
					fakes = append(fakes, f)
					return f, nil
				}})
				for i := range n {
					takes(t, k, "idle"+strconv.Itoa(i), 1).Release()
				}
				k.TryAcquire("closed", 1)
				l, _ := k.Get("closed")
				require.NoError(t, l.(interface{ Close() error }).Close())
				for _, f := range fakes {
					f.idle.Store(int64(time.Hour))
				}
				for i := range 4*(n+1) + 16 {
					if i%2 == 0 {
						refused(t, k, "closed", i%3, core.ErrClosed)
						continue
					}
					_, err := k.Acquire(t.Context(), "closed", i%3)
					require.Equal(t, core.ErrClosed, err)
				}
				require.Equal(t, map[string]bool{"closed": true}, live(k))
			})
		})
	}
}

// A request whose context ended before it saw its grant has used up the turn of that.
func TestRequestsWhoseContextEndsSweep(t *testing.T) {
	limiters := kinds(3, 3*time.Second)
	delete(limiters, "concurrency")
	delete(limiters, "theirs")
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 100
				var fakes []*fake
				k := newKeyed(t, options{New: func(key string) (core.Limiter, error) {
					if key == "busy" {
						return limiter(), nil
					}
					f := newFake(busy) // is asked at every other visit
					fakes = append(fakes, f)
					return f, nil
				}})
				for i := range n {
					takes(t, k, "idle"+strconv.Itoa(i), 1).Release()
				}
				takes(t, k, "busy", 1) // grants 1 to 3: each third is the one that nobody sees
				takes(t, k, "busy", 1)
				takes(t, k, "busy", 1)
				for _, f := range fakes {
					f.idle.Store(int64(time.Hour))
				}
				for calls := 0; calls < 4*(n+1)+16; calls += 3 {
					<-time.NewTimer(10 * time.Second).C
					takes(t, k, "busy", 1)
					takes(t, k, "busy", 1)
					_, err := k.Acquire(&ended{t.Context(), time.Now().Add(1)}, "busy", 2)
					require.Equal(t, context.Canceled, err)
				}
				require.Equal(t, 1, k.Len())
			})
		})
	}
}

// ended is a context whose end nobody is told of who does not look.
type ended struct {
	context.Context

	at time.Time
}

func (c *ended) Err() error {
	if time.Now().Before(c.at) {
		return nil
	}
	return context.Canceled
}

// endsLater is a context that is found to be done after some looks.
type endsLater struct {
	context.Context

	done  context.Context
	looks int
}

func (c *endsLater) Err() error {
	c.looks--
	if c.looks < 0 {
		return c.done.Err()
	}
	return nil
}

func (c *endsLater) Done() <-chan struct{} { return c.done.Done() }
