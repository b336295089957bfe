package core_test

import (
	"context"
	"encoding"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// fairly sets FairShare.
func fairly(tb testing.TB, l everything) everything {
	tb.Helper()
	return ordered(tb, l, core.FairShare)
}

func ordered(tb testing.TB, l everything, order core.QueueOrder) everything {
	tb.Helper()
	var err error
	switch l := l.(type) {
	case *core.ConcurrencyLimiter:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.TokenBucket:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.FixedWindow:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	case *core.SlidingWindow:
		o := l.Options()
		o.QueueOrder = order
		err = l.Update(o)
		require.Equal(tb, o, l.Options())
	}
	require.NoError(tb, err)
	return l
}

// as is a limiter whose requests are of a flow.
type as struct {
	core.Limiter
	flow core.Flow
}

func (a as) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return a.Limiter.Acquire(core.WithFlow(ctx, a.flow), permits)
}

func key(l core.Limiter, name string) as { return as{l, core.Flow{Key: name}} }

func TestFlowOf(t *testing.T) {
	_, ok := core.FlowFromContext(t.Context())
	require.False(t, ok)
	for _, c := range []struct{ of, want core.Flow }{
		{core.Flow{}, core.Flow{}},
		{core.Flow{Key: "a", Weight: 7, Priority: -3}, core.Flow{Key: "a", Weight: 7, Priority: -3}},
		{core.Flow{Weight: -4, Priority: -101}, core.Flow{Weight: 1, Priority: -100}},
		{core.Flow{Weight: 1<<20 + 1, Priority: 101}, core.Flow{Weight: 1 << 20, Priority: 100}},
	} {
		got, ok := core.FlowFromContext(core.WithFlow(t.Context(), c.of))
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
	inner := core.WithFlow(core.WithFlow(t.Context(), core.Flow{Key: "outer"}), core.Flow{Key: "inner"})
	got, _ := core.FlowFromContext(inner)
	require.Equal(t, "inner", got.Key)
}

// flowless is a context that must not be asked for a flow.
type flowless struct{ context.Context }

func (flowless) Value(any) any { panic("asked for a value") }

func TestARequestThatDoesNotWaitNeedsNoFlow(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		fairly(t, l)
		lease, err := l.Acquire(flowless{t.Context()}, 3)
		require.NoError(t, err)
		zero, err := l.Acquire(flowless{t.Context()}, 0)
		require.NoError(t, err)
		_, err = l.Acquire(flowless{t.Context()}, 6)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
		zero.Release()
		l.Refund(lease)
		// Under another order no context is asked.
		takes(t, ordered(t, l, core.OldestFirst), 5)
		queues(t, key(l, "a"), 1)
		go func() { _, _ = l.Acquire(flowless{t.Context()}, 1) }()
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		require.NoError(t, l.Close())
	})
}

// giveBack returns what a lease has, or waits until it has come back.
func giveBack(l everything, lease core.Lease) {
	if _, ok := l.(*core.ConcurrencyLimiter); ok {
		lease.Release()
	} else {
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

func TestFlowsTakeTurns(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		held := takes(t, l, 5)
		greedy, modest := key(l, "greedy"), key(l, "modest")
		g1, g2, g3 := queues(t, greedy, 5), queues(t, greedy, 5), queues(t, greedy, 5)
		m1, m2 := queues(t, modest, 5), queues(t, modest, 5)
		require.False(t, l.TryAcquire(1).Acquired())
		for _, next := range []*acquire{g1, m1, g2, m2, g3} {
			next.waits(t)
			giveBack(l, held)
			held = next.granted(t)
		}
	})
}

func TestPrioritiesComeFirst(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		held := takes(t, l, 5)
		low, plain, high := as{l, core.Flow{Priority: -1}}, as{l, core.Flow{}}, as{l, core.Flow{Priority: 1}}
		a, b, c, d := queues(t, low, 5), queues(t, plain, 5), queues(t, high, 5), queues(t, high, 5)
		for _, next := range []*acquire{c, d, b, a} {
			next.waits(t)
			giveBack(l, held)
			held = next.granted(t)
		}
	})
}

func TestAGrantThatIsGivenBackKeepsItsCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, concurrency(t, 1, 50))
		held := takes(t, l, 1)
		a1, a2, b1 := queues(t, key(l, "a"), 1), queues(t, key(l, "a"), 1), queues(t, key(l, "b"), 1)
		held.Release()
		l.Refund(a1.granted(t))
		b1.granted(t)
		a2.waits(t)
	})
}

var (
	_ encoding.TextMarshaler   = core.OldestFirst
	_ encoding.TextUnmarshaler = new(core.QueueOrder)
)

func TestQueueOrderAsText(t *testing.T) {
	var zero core.QueueOrder
	require.Equal(t, core.OldestFirst, zero)
	for order, want := range map[core.QueueOrder]string{
		core.OldestFirst: "oldest-first", core.NewestFirst: "newest-first", core.FairShare: "fair-share",
	} {
		require.Equal(t, want, order.String())
		text, err := order.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got := core.QueueOrder(9)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, order, got)
	}
}

func TestBadQueueOrders(t *testing.T) {
	_, err := core.QueueOrder(3).MarshalText()
	require.Error(t, err)
	require.NotEmpty(t, core.QueueOrder(3).String())
	require.NotEqual(t, core.QueueOrder(3).String(), core.QueueOrder(4).String())
	for _, text := range []string{"", "oldest", "Oldest-First", "oldest-first ", "newest-firs", "fair", "FairShare", "0", "2"} {
		order := core.NewestFirst
		require.Error(t, order.UnmarshalText([]byte(text)), text)
		require.Equal(t, core.NewestFirst, order, "left as it was")
	}
	_, err = json.Marshal(core.QueueOrder(200))
	require.Error(t, err)
}

func newest(t *testing.T, permits, queue int) *core.ConcurrencyLimiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: permits, QueueLimit: queue, QueueOrder: core.NewestFirst,
	})
	require.NoError(t, err)
	return l
}

func TestNoRequestOvertakesUnderOldestFirst(t *testing.T) {
	eachOfFour(t, 5, 9, func(t *testing.T, l everything) {
		held := takes(t, l, 3)
		big := queues(t, l, 3)
		available(t, l, 2)
		require.False(t, l.TryAcquire(1).Acquired(), "it would fit")
		small := queues(t, l, 1)
		counts(t, l, 5, 2, 4, 1, 1)
		l.Refund(held)
		big.granted(t)
		small.granted(t)
		counts(t, l, 5, 1, 0, 3, 1)
		takes(t, l, 1)
	})
}

func TestNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newest(t, 5, 6)
		held, two := takes(t, l, 3), takes(t, l, 2)
		a, b, c := queues(t, l, 2), queues(t, l, 2), queues(t, l, 2)
		d := queues(t, l, 3) // evicts the oldest, whole, until it fits
		a.rejected(t, "evicted by a newer request", 0)
		b.rejected(t, "evicted by a newer request", 0)
		counts(t, l, 5, 0, 5, 2, 2)
		two.Release()
		acquires(t, l, 1).granted(t) // a newcomer that fits goes first
		c.waits(t)
		require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 7, QueueLimit: 6, QueueOrder: core.NewestFirst}))
		d.granted(t)
		acquires(t, l, 7).rejected(t, "queue limit reached", 0) // more than the queue holds evicts none
		c.waits(t)
		held.Release()
		c.granted(t)
	})
}
