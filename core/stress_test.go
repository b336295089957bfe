package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// tally counts what callers saw, to be compared with what the limiter says.
type tally struct {
	granted, rejected, canceled, closed atomic.Uint64
	held, most                          atomic.Int64
}

// saw counts the end of an Acquire or a TryAcquire of n permits.
func (c *tally) saw(t *testing.T, n int, err error) bool {
	t.Helper()
	switch {
	case err == nil:
		c.granted.Add(1)
		for h := c.held.Add(int64(n)); ; {
			m := c.most.Load()
			if h <= m || c.most.CompareAndSwap(m, h) {
				return true
			}
		}
	case errors.Is(err, core.ErrRejected):
		c.rejected.Add(1)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.canceled.Add(1)
	case errors.Is(err, core.ErrClosed), errors.Is(err, core.ErrPermitsExceedLimit):
		c.closed.Add(1)
	default:
		t.Errorf("unexpected: %v", err)
	}
	return false
}

// end ends a lease in one of three ways; the count goes down first, so that it is never above the number of held permits.
func (c *tally) end(l everything, lease core.Lease, how int) {
	c.held.Add(-int64(lease.Permits()))
	switch how {
	case 0:
		lease.Release()
	case 1:
		runtime.Gosched()
		lease.Settle(1).Refund()
	default:
		var copies sync.WaitGroup
		for _, k := range []core.Lease{lease, lease.With(core.ReasonPhrase.With("a copy")), lease} {
			copies.Go(k.Release)
		}
		copies.Wait()
	}
}

// All operations together on a concurrency limiter and on a chain: grants race cancellations, updates and releases of many
// copies, old ones among them. Nothing is lost, the held permits never exceed the limit, and the counts are exact.
func TestStressEverything(t *testing.T) {
	const limit = 4
	options := core.ConcurrencyLimiterOptions{PermitLimit: limit, QueueLimit: 8}
	slots, outer := core.Must(core.NewConcurrencyLimiter(options)), concurrency(t, 100, 0)
	for name, l := range map[string]everything{"limiter": slots, "chain": chain(t, outer, core.WithReason(slots, "busy"))} {
		t.Run(name, func(t *testing.T) {
			before := l.Statistics()
			var c tally
			var old [64]atomic.Pointer[core.Lease]
			var workers, updater sync.WaitGroup
			stop := make(chan struct{})
			updater.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						o := core.ConcurrencyLimiterOptions{PermitLimit: 1 + i%limit, QueueLimit: 3 + i%9, QueueOrder: core.QueueOrder(i % 3)}
						_ = slots.Update(o)
						runtime.Gosched()
					}
				}
			})
			for worker := range 6 {
				workers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(worker), 1))
					flow := core.Flow{Key: string(rune('a' + worker%3)), Weight: worker, Priority: worker % 2}
					for range testkit.Rounds(4000) {
						n := 1 + random.IntN(3)
						ctx, cancel := context.WithCancel(core.WithFlow(t.Context(), flow))
						patience := random.IntN(3)
						if patience > 0 {
							go func() {
								for range patience {
									runtime.Gosched()
								}
								cancel()
							}()
						}
						var lease core.Lease
						var err error
						if random.IntN(3) == 0 {
							lease = l.TryAcquire(n)
							err = lease.Err()
						} else {
							lease, err = l.Acquire(ctx, n)
						}
						if c.saw(t, n, err) {
							c.end(l, lease, random.IntN(3))
							if o := old[random.IntN(len(old))].Swap(&lease); o != nil {
								o.Release()
								o.Refund()
							}
						}
						cancel()
					}
				})
			}
			workers.Wait()
			close(stop)
			updater.Wait()
			require.NoError(t, slots.Update(options))
			require.LessOrEqual(t, c.most.Load(), int64(limit))
			counts(t, l, limit, limit, 0, before.Granted+c.granted.Load(), before.Rejected+c.rejected.Load())
			available(t, outer, 100)
		})
	}
}

// Waiters race Close: each is granted or told, and all permits come back.
func TestStressGrantAgainstClose(t *testing.T) {
	for range testkit.Rounds(1500) {
		l := concurrency(t, 2, 100)
		var c tally
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for {
					lease, err := l.Acquire(t.Context(), 1)
					if !c.saw(t, 1, err) {
						return
					}
					c.end(l, lease, 0)
					runtime.Gosched() // on one processor the closer wants its turn
				}
			})
		}
		all.Go(func() {
			for range 20 {
				runtime.Gosched()
			}
			_ = l.Close()
		})
		all.Wait()
		require.Equal(t, uint64(6), c.closed.Load())
		require.LessOrEqual(t, c.most.Load(), int64(2))
		counts(t, l, 2, 2, 0, c.granted.Load(), 0)
	}
}

// All operations together on a bucket and on windows: never more is granted than the time that
// passed allows, and in the end the counts are exact.
func TestStressRates(t *testing.T) {
	const limit, period = 50, 10 * time.Millisecond
	for name, l := range map[string]everything{
		"bucket":  bucket(t, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: limit, ReplenishmentPeriod: period, QueueLimit: 30}),
		"fine":    bucket(t, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: period / limit, QueueLimit: 30}),
		"fixed":   fixed(t, core.FixedWindowOptions{PermitLimit: limit, Window: period, QueueLimit: 30}),
		"sliding": sliding(t, core.SlidingWindowOptions{PermitLimit: limit, Window: period, SegmentsPerWindow: 5, QueueLimit: 30}),
	} {
		t.Run(name, func(t *testing.T) {
			var c tally
			var permits atomic.Int64
			var all sync.WaitGroup
			start := time.Now()
			for worker := range 6 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(worker), 4))
					for range testkit.Rounds(1000) {
						n := random.IntN(5)
						switch random.IntN(4) {
						case 0:
							lease := l.TryAcquire(n)
							if c.saw(t, 0, lease.Err()) {
								permits.Add(int64(n))
							}
						case 1:
							lease := l.TryAcquire(n)
							if c.saw(t, 0, lease.Err()) {
								lease.Refund()
							}
						default:
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
							_, err := l.Acquire(ctx, n)
							cancel()
							if c.saw(t, 0, err) {
								permits.Add(int64(n))
							}
						}
					}
				})
			}
			all.Wait()
			periods := int64(time.Since(start)/period) + 2
			require.LessOrEqual(t, permits.Load(), periods*limit)
			s := l.Statistics()
			require.Zero(t, s.Queued)
			require.Equal(t, c.granted.Load(), s.Granted)
			require.Equal(t, c.rejected.Load(), s.Rejected)
		})
	}
}
