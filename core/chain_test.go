package core_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestAChainNeedsLimiters(t *testing.T) {
	var nilBucket *core.TokenBucket
	for _, limiters := range [][]core.Limiter{nil, {nil}, {core.Unlimited(), nil}, {nilBucket}} {
		c, err := core.Chain(limiters...)
		require.Error(t, err)
		require.Nil(t, c)
	}
}

// trace is a limiter that writes down what happens to it. Its leases cannot be settled.
type trace struct {
	core.Limiter
	name string
	log  *[]string
}

func (l trace) TryAcquire(n int) core.Lease { return l.wrap(l.Limiter.TryAcquire(n)) }

func (l trace) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, n)
	return l.wrap(lease), err
}

func (l trace) wrap(lease core.Lease) core.Lease {
	if !lease.Acquired() {
		*l.log = append(*l.log, "refused by "+l.name)
		return lease
	}
	*l.log = append(*l.log, "granted by "+l.name)
	return core.Grant(lease.Permits(), func() {
		*l.log = append(*l.log, "released to "+l.name)
		lease.Release()
	}, core.LimiterName.With(l.name))
}

// settling is a trace whose leases can be settled.
type settling struct{ trace }

func (l settling) TryAcquire(n int) core.Lease { return l.settles(l.trace.TryAcquire(n)) }

func (l settling) Acquire(ctx context.Context, n int) (core.Lease, error) {
	lease, err := l.trace.Acquire(ctx, n)
	return l.settles(lease), err
}

func (l settling) settles(lease core.Lease) core.Lease {
	if !lease.Acquired() {
		return lease
	}
	return core.GrantFrom(&settlingGrant{l, lease}, lease.Permits(), core.LimiterName.With(l.name))
}

type settlingGrant struct {
	settling
	lease core.Lease
}

func (g *settlingGrant) Release(int) { g.lease.Release() }

func (g *settlingGrant) Settle(_, now int) int {
	*g.log = append(*g.log, fmt.Sprintf("settled to %d by %s", now, g.name))
	if now == 0 {
		g.lease.Release()
	}
	return now
}

func TestAChainIsAllOrNothing(t *testing.T) {
	var log []string
	a := trace{concurrency(t, 9, 0), "a", &log}
	b := settling{trace{concurrency(t, 9, 0), "b", &log}}
	c := trace{concurrency(t, 3, 0), "c", &log}
	l := chain(t, a, b, c)

	lease := takes(t, l, 3)
	lease.Release()
	lease.Release()
	require.Equal(t, []string{
		"granted by a", "granted by b", "granted by c", "released to c", "released to b", "released to a",
	}, log)

	lease = takes(t, l, 3)
	log = nil
	require.False(t, l.TryAcquire(1).Acquired())
	_, err := l.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, core.ErrRejected)
	undone := []string{"granted by a", "granted by b", "refused by c", "settled to 0 by b", "released to b", "released to a"}
	require.Equal(t, append(undone, undone...), log)
	require.Equal(t, 6, a.Limiter.Available())

	log = nil
	lease.Refund()
	lease.Refund()
	lease.Release()
	require.Equal(t, []string{"released to c", "settled to 0 by b", "released to b", "released to a"}, log)
	require.Equal(t, 9, a.Limiter.Available())
	s := l.Statistics()
	require.Equal(t, []uint64{2, 2}, []uint64{s.Granted, s.Rejected})
}

func TestTheErrorIsOfTheLimiterThatRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := concurrency(t, 9, 0)
		rate := bucket(t, core.TokenBucketOptions{Name: "rate", TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 4})
		l := chain(t, slots, rate)
		takes(t, l, 4)
		lease := rejected(t, l, 1, time.Second)
		name, _ := core.LimiterName.From(lease)
		require.Equal(t, "rate", name)
		available(t, slots, 5)
		refused(t, l, -1, core.ErrNegativePermits)
		refused(t, l, 5, core.ErrPermitsExceedLimit)
		acquires(t, l, 5).fails(t, core.ErrPermitsExceedLimit)
		acquiresWithin(t, l, 1, time.Millisecond).rejected(t, "deadline too soon", time.Second)
		available(t, slots, 5)
		require.NoError(t, rate.Close())
		refused(t, l, 1, core.ErrClosed)
		acquires(t, l, 1).fails(t, core.ErrClosed)
		available(t, slots, 5)
		counts(t, l, 4, 0, 0, 1, 2)
	})
}

func TestAChainWaitsForOneBeforeItAsksTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := concurrency(t, 2, 2)
		rate := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 2})
		l := chain(t, slots, rate)
		held := takes(t, slots, 2)
		a := queues(t, l, 2)
		available(t, rate, 2)
		require.Equal(t, 2, l.Statistics().Queued)
		spent := takes(t, rate, 2)
		held.Release()
		a.waits(t)
		available(t, slots, 0)
		require.Equal(t, 2, rate.Statistics().Queued)
		time.Sleep(2 * time.Second)
		lease := a.granted(t)
		require.Equal(t, 2, lease.Permits())

		// Canceled while it waits for the second: the permits of the first are returned.
		lease.Release()
		b := queues(t, l, 1)
		available(t, slots, 1)
		b.canceled(t)
		available(t, slots, 2)
		spent.Refund() // too late: all has come back since
		time.Sleep(2 * time.Second)
		takes(t, l, 2)
	})
}

func TestMetadataOfAChainIsTheUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "slots", PermitLimit: 9})
		require.NoError(t, err)
		rate := bucket(t, core.TokenBucketOptions{Name: "rate", TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		require.Equal(t, map[string]any{
			"LIMITER_NAME": "slots", "PERMIT_LIMIT": 9, "REMAINING": 8, "RESET_AFTER": time.Second, "WINDOW": 4 * time.Second,
		}, metadata(t, takes(t, chain(t, slots, rate), 1)))
		require.Equal(t, map[string]any{
			"LIMITER_NAME": "rate", "PERMIT_LIMIT": 4, "REMAINING": 2, "RESET_AFTER": 2 * time.Second, "WINDOW": 4 * time.Second,
		}, metadata(t, takes(t, chain(t, core.Unlimited(), rate, slots), 1)))
		shade := core.NewMetadataKey[string]("SHADE")
		mine := theirs{lease: core.Grant(1, nil, shade.With("green"), core.LimiterName.With("mine")), left: 7}
		other := theirs{lease: core.Grant(1, nil, shade.With("red"), core.Remaining.With(5)), left: 7}
		require.Equal(t, map[string]any{
			"SHADE": "green", "LIMITER_NAME": "mine", "REMAINING": 5, "PERMIT_LIMIT": 9,
		}, metadata(t, takes(t, chain(t, mine, other, slots), 1)))
	})
}

// A chain's Close ends its own waits. Its limiters, and what they granted, stay.
func TestCloseOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, rate := concurrency(t, 3, 3), bucket(t, core.Every(time.Second, 1))
		l := chain(t, slots, rate)
		lease := takes(t, l, 1)
		a, b := queues(t, l, 1), queues(t, l, 1)
		require.NoError(t, l.Close())
		a.fails(t, core.ErrClosed)
		b.fails(t, core.ErrClosed)
		for _, n := range []int{0, 1} {
			refused(t, l, n, core.ErrClosed)
			acquires(t, l, n).fails(t, core.ErrClosed)
		}
		counts(t, slots, 3, 2, 0, 3, 0)
		require.Zero(t, rate.Statistics().Queued)
		lease.Release()
		available(t, slots, 3)
		time.Sleep(time.Second)
		takes(t, slots, 1)
		takes(t, rate, 1)
	})
}

func TestAChainReplenishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manual := fixed(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Minute, ManualReplenishment: true})
		rate := bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		slots := concurrency(t, 5, 0)
		l := chain(t, slots, rate, manual)
		require.Equal(t, time.Second, l.ReplenishmentPeriod())
		takes(t, l, 3)
		time.Sleep(time.Minute)
		available(t, l, 0)
		require.True(t, l.TryReplenish())
		require.False(t, l.TryReplenish())
		available(t, l, 2) // three are still held
		require.Zero(t, chain(t, slots).ReplenishmentPeriod())
		require.False(t, chain(t, slots).TryReplenish())
		require.Equal(t, time.Minute, chain(t, chain(t, manual), chain(t, slots)).ReplenishmentPeriod())
	})
}

// A chain that finds too low a limit, and is granted the permits as it was raised just then,
// gives them back.
func TestAChainKeepsNothingOfALimitThatIsRaised(t *testing.T) {
	l := concurrency(t, 10, 0)
	c := chain(t, concurrency(t, 10, 0), l)
	limit := func(n int) { require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: n})) }
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			limit(1)
			limit(10)
		}
	})
	for range 100_000 {
		c.TryAcquire(5).Release()
	}
	done.Store(true)
	wg.Wait()
	available(t, c, 10)
}

// The end of a context is no rejection, even if the context's own error is one.
func TestAChainCountsNoContextAsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := concurrency(t, 1, 1)
		takes(t, slots, 1)
		l := chain(t, slots)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		own := &core.RejectedError{Reason: "by the context"}
		_, err := l.Acquire(testkit.OwnError{Context: ctx, Own: own}, 1)
		require.Equal(t, own, err)
		counts(t, l, 1, 0, 0, 0, 0)
	})
}

// A chain with a limiter that grants nothing has no permits, whatever the limits of the others.
func TestAChainOfPausedHasNoLimit(t *testing.T) {
	for _, none := range []core.Limiter{core.Paused(), core.Blocked(), core.NewSwitch(core.Paused()), chain(t, core.Blocked())} {
		counts(t, chain(t, concurrency(t, 5, 0), none, core.Unlimited()), 0, 0, 0, 0, 0)
	}
}
