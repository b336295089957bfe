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
	granted, rejected, cancelled, closed atomic.Uint64
	held, most                           atomic.Int64
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
		c.cancelled.Add(1)
	case errors.Is(err, core.ErrClosed), errors.Is(err, core.ErrPermitsExceedLimit):
		c.closed.Add(1)
	default:
		t.Errorf("unexpected: %v", err)
	}
	return false
}

// release gives back what was held; the count goes down first, so that it is never above
// what is really held.
func (c *tally) release(lease core.Lease) {
	c.held.Add(-int64(lease.Permits()))
	lease.Release()
}

// Grant races cancellation: one of them wins, nothing is lost, and what is held never
// exceeds the limit.
func TestStressGrantAgainstCancel(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		t.Run(order.String(), func(t *testing.T) {
			l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 3, QueueLimit: 8, QueueOrder: order})
			require.NoError(t, err)
			var c tally
			var all sync.WaitGroup
			for worker := range 6 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(worker), 1))
					for range testkit.Rounds(4000) {
						flow := core.Flow{Key: string(rune('a' + worker%3)), Weight: worker, Priority: random.IntN(2)}
						ctx, cancel := context.WithCancel(core.WithFlow(t.Context(), flow))
						n := 1 + random.IntN(3)
						patience := random.IntN(3)
						go func() {
							for range patience {
								runtime.Gosched()
							}
							cancel()
						}()
						lease, err := l.Acquire(ctx, n)
						if c.saw(t, n, err) {
							if random.IntN(2) == 0 {
								runtime.Gosched()
							}
							c.release(lease)
							lease.Release()
						}
						cancel()
					}
				})
			}
			all.Wait()
			require.LessOrEqual(t, c.most.Load(), int64(3))
			counts(t, l, 3, 3, 0, c.granted.Load(), c.rejected.Load())
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
					c.release(lease)
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

// Grants and releases race Update: counts stay exact, and in the end all is back.
func TestStressGrantAgainstUpdate(t *testing.T) {
	l := concurrency(t, 4, 6)
	var c tally
	var workers, updater sync.WaitGroup
	stop := make(chan struct{})
	updater.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 1 + i%5, QueueLimit: 3 + i%4, QueueOrder: core.QueueOrder(i % 2)})
				runtime.Gosched()
			}
		}
	})
	for worker := range 4 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 2))
			for range testkit.Rounds(20_000) {
				n := 1 + random.IntN(3)
				if random.IntN(2) == 0 {
					lease := l.TryAcquire(n)
					if c.saw(t, n, lease.Err()) {
						c.release(lease)
					}
					continue
				}
				lease, err := l.Acquire(t.Context(), n)
				if c.saw(t, n, err) {
					c.release(lease)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	updater.Wait()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 5}))
	require.LessOrEqual(t, c.most.Load(), int64(5))
	counts(t, l, 5, 5, 0, c.granted.Load(), c.rejected.Load())
}

// Many copies of a lease are released at once, old ones among them.
func TestStressReleaseOfManyCopies(t *testing.T) {
	l := concurrency(t, 4, 100)
	var c tally
	var all sync.WaitGroup
	var old [64]atomic.Pointer[core.Lease]
	for worker := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 3))
			for range testkit.Rounds(5000) {
				lease, err := l.Acquire(t.Context(), 1+random.IntN(2))
				if !c.saw(t, lease.Permits(), err) {
					continue
				}
				tagged := lease.With(core.ReasonPhrase.With("a copy"))
				c.held.Add(-int64(lease.Permits()))
				var copies sync.WaitGroup
				for _, k := range []core.Lease{lease, tagged, lease} {
					copies.Go(k.Release)
				}
				if o := old[random.IntN(len(old))].Load(); o != nil {
					o.Release()
					l.Refund(*o)
				}
				copies.Wait()
				old[random.IntN(len(old))].Store(&lease)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, c.most.Load(), int64(4))
	counts(t, l, 4, 4, 0, c.granted.Load(), 0)
}

// A bucket and windows under everything at once: never more is granted than the time that
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
			begin := time.Now()
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
								l.Refund(lease)
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
			periods := int64(time.Since(begin)/period) + 2
			require.LessOrEqual(t, permits.Load(), periods*limit)
			s := l.Statistics()
			require.Zero(t, s.Queued)
			require.Equal(t, c.granted.Load(), s.Granted)
			require.Equal(t, c.rejected.Load(), s.Rejected)
		})
	}
}

// Looking on changes nothing: while two others take and refund one token, almost all are there
// at any time. A refund that comes thousands of grants late gives nothing back.
func TestStressLooksAtABucket(t *testing.T) {
	l := bucket(t, core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
	var all sync.WaitGroup
	var fewer atomic.Int64
	for range 2 {
		all.Go(func() {
			for range testkit.Rounds(20_000) {
				l.Refund(l.TryAcquire(1))
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range testkit.Rounds(20_000) {
				if l.Available() < 900 || !l.TryAcquire(0).Acquired() {
					fewer.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, fewer.Load())
}

// Chains over shared limiters: in the end everything is back everywhere.
func TestStressChains(t *testing.T) {
	a, b := concurrency(t, 5, 4), concurrency(t, 3, 4)
	rate := bucket(t, core.TokenBucketOptions{TokenLimit: 1_000_000, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 10})
	ab, all3 := chain(t, a, b), chain(t, chain(t, rate, a), b)
	var c, d tally
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 5))
			for range testkit.Rounds(3000) {
				l, k := ab, &c
				if random.IntN(2) == 0 {
					l, k = all3, &d
				}
				ctx, cancel := context.WithCancel(t.Context())
				n := 1 + random.IntN(2)
				var lease core.Lease
				var err error
				if random.IntN(3) == 0 {
					lease = l.TryAcquire(n)
					err = lease.Err()
				} else {
					go func() {
						runtime.Gosched()
						cancel()
					}()
					lease, err = l.Acquire(ctx, n)
				}
				if k.saw(t, 0, err) {
					if k == &d {
						l.Refund(lease)
					}
					lease.Release()
					lease.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	available(t, a, 5)
	available(t, b, 3)
	require.LessOrEqual(t, rate.Available(), 1_000_000) // a refund beside others may give back less
	counts(t, ab, 3, 3, 0, c.granted.Load(), c.rejected.Load())
	counts(t, all3, 3, 3, 0, d.granted.Load(), d.rejected.Load())
}
