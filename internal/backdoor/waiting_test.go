package backdoor_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// answer is what a request got in the end.
type answer struct {
	lease core.Lease
	err   error
}

// waits asks in a goroutine and returns when the request waits.
func waits(t *testing.T, ask func(context.Context, int) (core.Lease, error), ctx context.Context, n int) <-chan answer { //nolint:revive // as it reads
	t.Helper()
	got := make(chan answer, 1)
	go func() {
		l, err := ask(ctx, n)
		got <- answer{l, err}
	}()
	synctest.Wait()
	require.Empty(t, got, "the request does not wait")
	return got
}

func waiting(l core.Limiter) func(context.Context, int) (core.Lease, error) {
	return func(ctx context.Context, n int) (core.Lease, error) { return ways.AcquireWaiting(ctx, l, n) }
}

func limiterOf(t *testing.T, order core.QueueOrder, permits, queue int) *core.ConcurrencyLimiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue, QueueOrder: order})
	require.NoError(t, err)
	return l
}

func TestWaitingIgnoresTheQueueLimit(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		testkit.Bubble(t, order.String(), func(t *testing.T) {
			l := limiterOf(t, order, 2, 3)
			all := l.TryAcquire(2)
			first := waits(t, waiting(l), t.Context(), 2)
			second := waits(t, waiting(l), t.Context(), 2)
			require.Equal(t, 4, l.Statistics().Queued)
			// The others have all of their room.
			other := waits(t, l.Acquire, t.Context(), 2)
			last := waits(t, l.Acquire, t.Context(), 1)
			require.Equal(t, 7, l.Statistics().Queued)
			_, err := l.Acquire(t.Context(), 4) // more than the limit
			require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
			_, err = ways.AcquireWaiting(t.Context(), l, 4)
			require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
			require.Zero(t, l.Statistics().Rejected)
			// A newcomer evicts, newest first, the others alone.
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = l.Acquire(ctx, 2)
			if order == core.NewestFirst {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, (<-other).err, core.ErrRejected)
			} else {
				require.ErrorIs(t, err, core.ErrRejected)
			}
			all.Release()
			for synctest.Wait(); l.Statistics().Queued > 0; synctest.Wait() {
				for _, c := range []<-chan answer{first, second, other, last} {
					select {
					case a := <-c:
						require.NoError(t, a.err)
						a.lease.Release()
					default:
					}
				}
			}
			require.Equal(t, uint64(1), l.Statistics().Rejected)
		})
	}
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, 1, 0)
		held, err := ways.AcquireWaiting(t.Context(), l, 1)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		canceled := waits(t, waiting(l), ctx, 1)
		cancel()
		require.Equal(t, context.Canceled, (<-canceled).err)
		_, err = ways.AcquireWaiting(ctx, l, 1)
		require.Equal(t, context.Canceled, err)
		_, err = ways.AcquireWaiting(t.Context(), l, -1)
		require.Equal(t, core.ErrNegativePermits, err)
		closed := waits(t, waiting(l), t.Context(), 1)
		require.NoError(t, l.Close())
		require.Equal(t, core.ErrClosed, (<-closed).err)
		held.Release()

		b, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		require.NoError(t, err)
		require.True(t, b.TryAcquire(1).Acquired())
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = ways.AcquireWaiting(soon, b, 1)
		var rejected *core.RejectedError
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, core.ReasonDeadlineTooSoon, rejected.Reason)
		start := time.Now()
		lease, err := ways.AcquireWaiting(t.Context(), b, 1)
		require.NoError(t, err)
		require.True(t, lease.Acquired())
		require.Equal(t, time.Hour, time.Since(start))
	})
}

// foreign is a limiter of somebody else over one of core's.
type foreign struct {
	core.Limiter

	asked int
}

func (f *foreign) Acquire(ctx context.Context, n int) (core.Lease, error) {
	f.asked++
	return f.Limiter.Acquire(ctx, n)
}

// overriding embeds one of core's and overrides Acquire.
type overriding struct {
	*core.ConcurrencyLimiter

	asked int
}

func (o *overriding) Acquire(ctx context.Context, n int) (core.Lease, error) {
	o.asked++
	return o.ConcurrencyLimiter.Acquire(ctx, n)
}

func TestWaitingPassesThroughOurs(t *testing.T) {
	for name, over := range map[string]func(t *testing.T, l core.Limiter) core.Limiter{
		"itself": func(_ *testing.T, l core.Limiter) core.Limiter { return l },
		"chain": func(t *testing.T, l core.Limiter) core.Limiter {
			t.Helper()
			c, err := core.Chain(core.Unlimited(), l)
			require.NoError(t, err)
			return c
		},
		"view in a chain in a view": func(t *testing.T, l core.Limiter) core.Limiter {
			t.Helper()
			c, err := core.Chain(core.WithReason(l, "full"), core.Unlimited())
			require.NoError(t, err)
			return core.WithReason(c, "busy")
		},
		"partition": func(t *testing.T, l core.Limiter) core.Limiter {
			t.Helper()
			k, err := partition.New(partition.Options[string, string]{
				Key: func(s string) string { return s }, New: func(string) (core.Limiter, error) { return l, nil },
			})
			require.NoError(t, err)
			return partition.For(k, "key")
		},
		"overflow of partitions": func(t *testing.T, l core.Limiter) core.Limiter {
			t.Helper()
			k, err := partition.New(partition.Options[string, string]{
				Key: func(s string) string { return s }, New: func(string) (core.Limiter, error) { return limiter(t, 1, 0), nil },
				MaxPartitions: 1, Overflow: core.WithReason(l, "full"),
			})
			require.NoError(t, err)
			held, err := k.Acquire(t.Context(), "other", 1)
			require.NoError(t, err)
			t.Cleanup(held.Release)
			return partition.For(k, "key")
		},
		"chain of partitions": func(t *testing.T, l core.Limiter) core.Limiter {
			t.Helper()
			k, err := partition.New(partition.Options[int, string]{
				Key: func(int) string { return "" }, New: func(string) (core.Limiter, error) { return core.WithReason(l, "full"), nil },
			})
			require.NoError(t, err)
			c, err := partition.Chain(partition.Shared[string](core.Unlimited()), partition.Translate(k, func(string) int { return 0 }))
			require.NoError(t, err)
			return partition.For(c, "key")
		},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			l := limiter(t, 1, 0)
			v := over(t, l)
			held, err := ways.AcquireWaiting(t.Context(), v, 1)
			require.NoError(t, err)
			_, err = v.Acquire(t.Context(), 1)
			require.ErrorIs(t, err, core.ErrRejected)
			got := waits(t, waiting(v), t.Context(), 1)
			require.Equal(t, 1, l.Statistics().Queued)
			held.Release()
			a := <-got
			require.NoError(t, a.err)
			a.lease.Release()
			require.Equal(t, 1, l.Available())
		})
	}
}

// A limiter of somebody else is asked once, and what it answers is the answer.
func TestWaitingAsksOthersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, 1, 0)
		held := l.TryAcquire(1)
		f, o := &foreign{Limiter: l}, &overriding{ConcurrencyLimiter: l}
		c, err := core.Chain(f)
		require.NoError(t, err)
		for _, other := range []core.Limiter{f, o, c} {
			_, err := ways.AcquireWaiting(t.Context(), other, 1)
			require.ErrorIs(t, err, core.ErrRejected)
		}
		require.Equal(t, 2, f.asked)
		require.Equal(t, 1, o.asked)
		held.Release()
		_, err = ways.AcquireWaiting(t.Context(), o, 1)
		require.NoError(t, err)
		require.Equal(t, 2, o.asked)
	})
}

func TestPlainPermitsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, 1, 0)
		p := plain(t, l)
		require.NoError(t, p.TakeWaiting(t.Context(), 1))
		require.ErrorIs(t, p.Take(t.Context(), 1), core.ErrRejected)
		got := waits(t, func(ctx context.Context, n int) (core.Lease, error) {
			return core.Lease{}, p.TakeWaiting(ctx, n)
		}, t.Context(), 1)
		p.Give(1)
		require.NoError(t, (<-got).err)
		p.Give(1)
		require.Equal(t, core.Statistics{Limit: 1, Available: 1, Granted: 2, Rejected: 1}, l.Statistics())
	})
}

// The sum of what waits may be more than an int holds.
func TestWaitingForMoreThanAnInt(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		testkit.Bubble(t, order.String(), func(t *testing.T) {
			l := limiterOf(t, order, math.MaxInt, 1)
			held := l.TryAcquire(math.MaxInt)
			var all sync.WaitGroup
			release := func(ask func(context.Context, int) (core.Lease, error)) func(context.Context, int) (core.Lease, error) {
				return func(ctx context.Context, n int) (core.Lease, error) {
					defer all.Done()
					l, err := ask(ctx, n)
					l.Release()
					return l, err
				}
			}
			for range 5 {
				all.Add(1)
				waits(t, release(waiting(l)), t.Context(), math.MaxInt)
			}
			require.Equal(t, math.MaxInt, l.Statistics().Queued)
			all.Add(1)
			waits(t, release(l.Acquire), t.Context(), 1)
			held.Release()
			all.Wait()
			require.Equal(t, core.Statistics{Limit: math.MaxInt, Available: math.MaxInt, Granted: 7}, l.Statistics())
		})
	}
}

func TestWaitingAllocatesNothingForAGrant(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	l := limiter(t, 1, 0)
	c, err := core.Chain(l, core.Unlimited())
	require.NoError(t, err)
	for _, of := range []core.Limiter{l, core.WithReason(l, "full"), c} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			lease, _ := ways.AcquireWaiting(t.Context(), of, 1)
			lease.Release()
		}))
	}
}
