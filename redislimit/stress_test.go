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

// Limiters, as in several processes, prefetch, take, wait, give up, settle, release and close concurrently. Never more is held than
// the limit, no permit is granted twice, and in the end all that was not used is back. A bucket returns less if it cannot tell how
// many tokens it has lacked ever since.
func TestStress(t *testing.T) {
	const processes, callers, rounds = 4, 4, 60
	s := serve(t)
	anchor := time.Now()
	for kind, limit := range map[string]int64{"bucket": 600, "sliding": 600, "concurrency": 5} {
		t.Run(kind, func(t *testing.T) {
			build := func(process int) everything {
				o := redislimit.Options{Store: s.store, Key: kind, Timeout: time.Minute, TTL: time.Hour, Prefetch: 1 + 5*process}
				order := core.QueueOrder(process % 2)
				switch kind {
				case "bucket":
					return bucket(t, o, core.TokenBucketOptions{TokenLimit: int(limit), TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour, QueueLimit: 10, QueueOrder: order})
				case "sliding":
					return sliding(t, o, core.SlidingWindowOptions{PermitLimit: int(limit), Window: 10_000 * time.Hour, SegmentsPerWindow: 10, Anchor: anchor, QueueLimit: 10, QueueOrder: order})
				}
				return concurrency(t, o, core.ConcurrencyLimiterOptions{PermitLimit: int(limit), QueueLimit: 10, QueueOrder: order})
			}
			leases := kind == "concurrency"
			var held, most, taken, grants atomic.Int64
			var unexpected atomic.Pointer[error]
			all := make([]everything, processes)
			var wg sync.WaitGroup
			for p := range all {
				l := build(p)
				all[p] = l
				for c := range callers {
					wg.Go(func() {
						random := rand.New(rand.NewPCG(uint64(p), uint64(c)))
						for range rounds {
							n := int64(random.IntN(4))
							lease, err := try(t.Context(), random, l, int(n), leases)
							if err != nil {
								if !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrRejected) && !errors.Is(err, core.ErrClosed) {
									unexpected.Store(&err)
								}
								continue
							}
							grants.Add(1)
							if leases {
								now := held.Add(n)
								for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
								}
								held.Add(-n)
							}
							if random.IntN(3) == 0 {
								n = int64(random.IntN(int(n) + 1))
								lease = lease.Settle(int(n))
							}
							if !leases {
								taken.Add(n)
							}
							lease.Release()
						}
						if leases && p == 0 {
							l.Close() // while the other callers of this process continue
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
			require.Positive(t, grants.Load())
			require.LessOrEqual(t, most.Load(), limit)
			left := func() int64 { return int64(build(0).Available()) }
			if kind == "bucket" {
				require.LessOrEqual(t, taken.Load()+left(), limit)
				return
			}
			// Permits that were granted to a caller that had given up are returned in the background.
			require.Eventually(t, func() bool { return taken.Load()+left() == limit }, time.Minute, time.Millisecond)
		})
	}
}

// try takes permits in one of several ways: by TryAcquire, or by an Acquire that gives up. If permits come back, it may also be an
// Acquire that waits.
func try(ctx context.Context, random *rand.Rand, l core.Limiter, permits int, waits bool) (core.Lease, error) {
	if random.IntN(3) == 0 {
		lease := l.TryAcquire(permits)
		return lease, lease.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !waits || random.IntN(2) == 0 {
		go cancel()
	}
	return l.Acquire(ctx, permits)
}
