package redislimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// soon is a store that grants each request a few microseconds later.
type soon struct{ liar }

func (*soon) Ready() bool { return true }

func (*soon) Run(_ context.Context, _ *redislimit.Script, _ []string, args ...int64) ([]int64, error) {
	reply := []int64{0, time.Now().UnixMicro(), 0}
	for ops := args[3:]; len(ops) > 0; {
		done, numbers := int64(0), map[int64]int{read: 1, take: 4, give: 5, cancelTicket: 6}[ops[0]]
		if ops[0] == take {
			done = 1 + 2*(2+rand.Int64N(20))
		}
		reply = append(reply, done, 1000, 0, 0)
		ops = ops[numbers:]
	}
	return reply, nil
}

// The first number of a script's operations.
const (
	read         = 0
	take         = 1
	give         = 2
	cancelTicket = 9
)

// Waiters that are served and give up at the same times as others come are served once each, and none is rejected.
func TestWaitersThatGiveUpWhenOthersAreServed(t *testing.T) {
	const callers, rounds = 6, 10_000
	o := redislimit.Options{Store: new(soon), Key: "key", Prefetch: 1, Timeout: time.Minute}
	l := bucket(t, o, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 1, ReplenishmentPeriod: time.Millisecond, QueueLimit: 1000})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				giveUp := time.AfterFunc(time.Duration(random.IntN(100))*time.Microsecond, cancel)
				lease, err := l.Acquire(ctx, 1+i%3)
				assert.Equal(t, err == nil, lease.Acquired())
				if err != nil {
					assert.Equal(t, context.Canceled, err)
				}
				giveUp.Stop()
				cancel()
			}
		})
	}
	wg.Wait()
	require.Zero(t, l.Statistics().Queued)
	require.Zero(t, l.Statistics().Rejected)
}
