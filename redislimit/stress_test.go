package redislimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// try takes permits in one of several ways: by TryAcquire, by Acquire, or by an Acquire that gives up.
func try(ctx context.Context, random *rand.Rand, l core.Limiter, permits int) (core.Lease, error) {
	if random.IntN(3) == 0 {
		lease := l.TryAcquire(permits)
		return lease, lease.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if random.IntN(2) == 0 {
		go cancel()
	}
	return l.Acquire(ctx, permits)
}

// expected reports whether an attempt may end with that error.
func expected(err error) bool {
	return err == nil || errors.Is(err, context.Canceled) || errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrClosed)
}

// Limiters, as in several processes, take, wait, give up, release, settle and close concurrently. There are never more permits held
// than the limit, and in the end all are back.
func TestStressLeases(t *testing.T) {
	const processes, callers, rounds, limit = 4, 4, 30, 5
	s := serve(t)
	o := redislimit.ConcurrencyLimiterOptions{
		ConcurrencyLimiterOptions: core.ConcurrencyLimiterOptions{PermitLimit: limit, QueueLimit: 2 * limit},
		Shared:                    redislimit.StoreOptions{Store: s.store, Key: "key", Timeout: time.Minute, TTL: time.Hour},
	}
	var held, most, granted atomic.Int64
	var unexpected atomic.Pointer[error]
	var wg sync.WaitGroup
	for p := range processes {
		o.QueueOrder = core.QueueOrder(p % 2)
		l, err := redislimit.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		for c := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(p), uint64(c)))
				for range rounds {
					n := 1 + random.IntN(limit-1)
					lease, err := try(t.Context(), random, l, n)
					if !expected(err) {
						unexpected.Store(&err)
					}
					if err != nil {
						continue
					}
					granted.Add(1)
					now := held.Add(int64(n))
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					held.Add(-int64(n))
					if random.IntN(2) == 0 {
						lease = l.Settle(lease, random.IntN(n+1))
					}
					lease.Release()
				}
				if p == 0 {
					l.Close() // while the other callers of this process continue
				}
			})
		}
	}
	wg.Wait()
	if err := unexpected.Load(); err != nil {
		require.NoError(t, *err)
	}
	require.Positive(t, granted.Load())
	require.LessOrEqual(t, most.Load(), int64(limit))
	// Permits that were granted to a caller that had given up are returned in the background.
	require.Eventually(t, func() bool {
		return concurrency(t, redislimit.StoreOptions{Store: s.store, Key: "key", Timeout: time.Minute, TTL: time.Hour},
			core.ConcurrencyLimiterOptions{PermitLimit: limit}).Available() == limit
	}, time.Minute, time.Millisecond)
}

// Rate limiters, as in several processes, prefetch, take, settle, give up and close concurrently. No permit is granted twice, and
// a window loses none. A bucket returns less if it cannot tell how many tokens it has lacked ever since.
func TestStressPermitsAreConserved(t *testing.T) {
	const processes, callers, rounds, limit = 4, 4, 60, 600
	anchor := time.Now() // one for all: an Anchor of another grid is an Update
	s := serve(t)
	for kind, build := range map[string]func(redislimit.StoreOptions) everything{
		"bucket": func(o redislimit.StoreOptions) everything {
			return bucket(t, o, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour, QueueLimit: 10})
		},
		"sliding": func(o redislimit.StoreOptions) everything {
			return sliding(t, o, core.SlidingWindowOptions{
				PermitLimit: limit, Window: 10_000 * time.Hour, SegmentsPerWindow: 10, Anchor: anchor, QueueLimit: 10,
			})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			var taken atomic.Int64
			var unexpected atomic.Pointer[error]
			all := make([]everything, processes)
			var wg sync.WaitGroup
			for p := range all {
				l := build(redislimit.StoreOptions{Store: s.store, Key: kind, Timeout: time.Minute, Prefetch: 1 + 5*p})
				all[p] = l
				for c := range callers {
					wg.Go(func() {
						random := rand.New(rand.NewPCG(uint64(p), uint64(c)))
						for range rounds {
							n := random.IntN(4)
							lease, err := tryInTime(t.Context(), random, l, n)
							if !expected(err) {
								unexpected.Store(&err)
							}
							if err != nil {
								continue
							}
							if random.IntN(3) == 0 {
								n = random.IntN(n + 1)
								l.Settle(lease, n)
							}
							taken.Add(int64(n))
						}
					})
				}
			}
			wg.Wait()
			for _, l := range all {
				require.NoError(t, l.Close())
			}
			if err := unexpected.Load(); err != nil {
				require.NoError(t, *err)
			}
			require.Positive(t, taken.Load())
			left := build(redislimit.StoreOptions{Store: s.store, Key: kind, Timeout: time.Minute, Prefetch: 1}).Available()
			require.LessOrEqual(t, taken.Load()+int64(left), int64(limit))
			if kind != "bucket" {
				require.Equal(t, int64(limit), taken.Load()+int64(left))
			}
		})
	}
}

// tryInTime is try for a limit whose permits do not come back, so every waiter gives up.
func tryInTime(ctx context.Context, random *rand.Rand, l core.Limiter, permits int) (core.Lease, error) {
	if random.IntN(2) == 0 {
		lease := l.TryAcquire(permits)
		return lease, lease.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go cancel()
	return l.Acquire(ctx, permits)
}
