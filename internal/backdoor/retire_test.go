package backdoor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// closable is what all four limiters of core are.
type closable interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Refunder
	Close() error
}

func made[L any](l *L, err error) *L {
	if err != nil {
		panic(err)
	}
	return l
}

// fours are core's limiters, of four permits each; what is taken of a rate comes back within
// so long. The level of the large bucket does not fit into a word, and the manual ones never give back.
func fours(back time.Duration) map[string]func() closable {
	return map[string]func() closable{
		"concurrency": func() closable {
			return made(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 100}))
		},
		"bucket": func() closable {
			return made(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: back / 4, QueueLimit: 100,
			}))
		},
		"manual": func() closable {
			return made(core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: back / 4, ManualReplenishment: true,
			}))
		},
		"fixed": func() closable {
			return made(core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 4, Window: back, QueueLimit: 100}))
		},
		"sliding": func() closable {
			return made(core.NewSlidingWindow(core.SlidingWindowOptions{
				PermitLimit: 4, Window: back, SegmentsPerWindow: 2, QueueLimit: 100,
			}))
		},
	}
}

// What is retired has been idle for so long by its own IdleFor, and grants nothing more.
func TestRetire(t *testing.T) {
	for name, limiter := range fours(time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter()
				time.Sleep(time.Minute)
				require.False(t, ways.Retire(l, time.Minute+1))
				lease := l.TryAcquire(3)
				require.True(t, lease.Acquired(), "it was not retired")
				require.False(t, ways.Retire(l, 0), "permits are taken")
				if name == "concurrency" {
					lease.Release()
				} else {
					l.Refund(lease)
				}
				_, idle := l.IdleFor()
				require.True(t, idle)
				require.False(t, ways.Retire(l, 1))
				time.Sleep(time.Second - 1)
				require.False(t, ways.Retire(l, time.Second))
				time.Sleep(1)
				require.True(t, ways.Retire(l, time.Second))

				refused := l.TryAcquire(1)
				require.Equal(t, core.ErrClosed, refused.Err())
				_, err := l.Acquire(t.Context(), 1)
				require.Equal(t, core.ErrClosed, err)
				require.Equal(t, core.ErrClosed, l.TryAcquire(0).Err())

				lease.Release()
				l.Refund(lease)
				require.Equal(t, core.Statistics{Limit: 4, Available: 4, Granted: 1}, l.Statistics())
				require.True(t, ways.Retire(l, time.Second), "it is as idle as before")
				require.NoError(t, l.Close())
				require.True(t, ways.Retire(l, 0))
			})
		})
	}
}

// One that its owner has closed can be retired too, once nothing is held.
func TestRetireOfAClosedLimiter(t *testing.T) {
	l := limiter(t, 1, 0)
	lease := l.TryAcquire(1)
	require.NoError(t, l.Close())
	require.False(t, ways.Retire(l, 0))
	lease.Release()
	require.True(t, ways.Retire(l, 0))
}

// A limiter that somebody waits for is not idle, and serves that caller.
func TestRetireWhileSomebodyWaits(t *testing.T) {
	for name, limiter := range fours(time.Second) {
		if name == "manual" {
			continue // nobody may wait there
		}
		synctest.Test(t, func(t *testing.T) {
			l := limiter()
			held := l.TryAcquire(4)
			end := make(chan error)
			go func() {
				_, err := l.Acquire(t.Context(), 4)
				end <- err
			}()
			synctest.Wait()
			require.False(t, ways.Retire(l, 0), name)
			held.Release()
			require.NoError(t, <-end, name)
			require.False(t, ways.Retire(l, 0), name)
		})
	}
}

// Of strangers it knows nothing, and neither of what embeds one of core's.
func TestRetireOfOthers(t *testing.T) {
	l := limiter(t, 1, 0)
	chain, err := core.Chain(l)
	require.NoError(t, err)
	for name, other := range map[string]any{
		"embedding": embedding{l}, "view": core.WithReason(l, "full"), "chain": chain, "unlimited": core.Unlimited(), "nil": nil,
		"zero concurrency": new(core.ConcurrencyLimiter), "nil concurrency": (*core.ConcurrencyLimiter)(nil),
		"zero bucket": new(core.TokenBucket), "nil bucket": (*core.TokenBucket)(nil),
		"zero fixed": new(core.FixedWindow), "nil fixed": (*core.FixedWindow)(nil),
		"zero sliding": new(core.SlidingWindow), "nil sliding": (*core.SlidingWindow)(nil),
	} {
		require.False(t, ways.Retire(other, 0), name)
	}
	require.True(t, l.TryAcquire(1).Acquired())
}

// Of a grant and a Retire that race exactly one wins: those that use a limiter, and whoever
// replaces it while it is idle, never have more out than one limiter grants. A rate limiter that
// has forgotten a grant when it is refunded, as a thousand or more came in between, is never idle again.
func TestStressRetire(t *testing.T) {
	const workers, rounds = 5, 3000
	limiters := fours(time.Hour) // no rate comes back but by a refund
	delete(limiters, "manual")
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			var current atomic.Pointer[closable]
			replace := func() *closable {
				l := limiter()
				current.Store(&l)
				return &l
			}
			replace()
			var out, working atomic.Int64
			working.Store(workers)
			retired := 0
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					defer working.Add(-1)
					r := rand.New(rand.NewPCG(uint64(w), 7))
					for range rounds {
						l := *current.Load()
						n := 1 + r.IntN(2)
						var lease core.Lease
						if r.IntN(2) == 0 {
							lease = l.TryAcquire(n)
						} else {
							ctx, cancel := context.WithCancel(t.Context())
							switch {
							case r.IntN(4) == 0:
								cancel()
							case name != "concurrency":
								wg.Go(cancel) // the permits may not come
							}
							lease, _ = l.Acquire(ctx, n)
							cancel()
						}
						if !lease.Acquired() {
							continue
						}
						if held := out.Add(int64(n)); held > 4 {
							t.Errorf("%d permits are out", held)
						}
						if r.IntN(2) == 0 {
							runtime.Gosched() // it is held for a while
						}
						out.Add(int64(-n))
						l.Refund(lease)
					}
				})
			}
			for working.Load() > 0 {
				l := *current.Load()
				if !ways.Retire(l, 0) {
					runtime.Gosched()
					continue
				}
				retired++
				if n := out.Load(); n != 0 {
					t.Errorf("retired with %d permits out", n)
				}
				if l.TryAcquire(1).Acquired() {
					t.Error("granted after it was retired")
				}
				replace()
			}
			wg.Wait()
			if name == "concurrency" { // it forgets nothing
				require.True(t, ways.Retire(*current.Load(), 0))
			}
			t.Log(retired, "retired")
		})
	}
}

func ExampleWays_retire() {
	ways := backdoor.Core[core.Lease]()
	bucket, _ := core.NewTokenBucket(core.Every(time.Hour, 1))
	fmt.Println(ways.Retire(bucket, 0), bucket.TryAcquire(1).Err())
	// Output: true core: limiter is closed
}
