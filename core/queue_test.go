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

// fairly puts FairShare in force.
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

func TestWhoDoesNotWaitIsNotAskedForAFlow(t *testing.T) {
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
		// Under another order nobody is asked.
		takes(t, ordered(t, l, core.OldestFirst), 5)
		queues(t, key(l, "a"), 1)
		go func() { _, _ = l.Acquire(flowless{t.Context()}, 1) }()
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		require.NoError(t, l.Close())
	})
}

// giveBack gives back what a lease has, or waits until it has come back.
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

// The request that is next is not overtaken for being large, but by one that becomes next before it.
func TestWhoBecomesNext(t *testing.T) {
	eachOfFour(t, 5, 50, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 3)
		large := queues(t, key(l, "a"), 4)
		same := queues(t, key(l, "a"), 1)
		other := queues(t, key(l, "b"), 1)
		available(t, l, 2)
		acquires(t, as{l, core.Flow{Priority: 1}}, 1).granted(t)
		available(t, l, 1)
		next := queues(t, as{l, core.Flow{Priority: 2}}, 2)
		queues(t, as{l, core.Flow{Priority: 1}}, 1).cancelled(t)
		large.cancelled(t) // still nobody overtakes the one that is next
		same.waits(t)
		other.waits(t)
		next.cancelled(t)
		same.granted(t)
		other.waits(t)
	})
}

func TestAFullQueueEvictsTheLargestShare(t *testing.T) {
	eachOfFour(t, 10, 10, func(t *testing.T, l everything) {
		fairly(t, l)
		takes(t, l, 10)
		retry := time.Second // all comes back then
		if _, ok := l.(*core.ConcurrencyLimiter); ok {
			retry = 0
		}
		a, b, c := key(l, "a"), key(l, "b"), as{l, core.Flow{Key: "c", Weight: 4}}
		a1, a2, a3 := queues(t, a, 2), queues(t, a, 2), queues(t, a, 1)
		b1 := queues(t, b, 1)
		c1 := queues(t, c, 4) // 5, 1 and 1 by weight
		acquires(t, a, 1).rejected(t, "queue limit reached", retry)
		b2 := queues(t, b, 2) // a has 5, b would have 3
		a3.rejected(t, "evicted by a newer request", retry)
		a2.rejected(t, "evicted by a newer request", retry)
		acquires(t, b, 2).rejected(t, "queue limit reached", retry)
		acquires(t, a, 11).fails(t, core.ErrPermitsExceedLimit)
		require.Equal(t, 9, l.Statistics().Queued)
		b3 := queues(t, b, 1)
		acquires(t, b, 1).rejected(t, "queue limit reached", retry) // b's own turn
		acquires(t, key(l, "d"), 4).rejected(t, "queue limit reached", retry)

		// A higher priority evicts from the lowest; the lowest evicts nobody.
		acquires(t, as{l, core.Flow{Priority: -1}}, 1).rejected(t, "queue limit reached", retry)
		high := as{l, core.Flow{Priority: 1}}
		h := queues(t, high, 9)
		for _, gone := range []*acquire{a1, b2, b3, c1} {
			require.ErrorIs(t, gone.err, core.ErrRejected)
		}
		b1.waits(t) // as much by weight as c1, and older
		acquires(t, key(l, "a"), 2).rejected(t, "queue limit reached", retry)
		acquires(t, high, 2).rejected(t, "queue limit reached", map[bool]time.Duration{true: 0, false: 2 * time.Second}[retry == 0])
		h.waits(t)
	})
}

// RetryAfter and "deadline too soon" are by what the request lacks and its own flow's waiters
// wait for: those of other flows may be served later.
func TestWhatIsCertainOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairly(t, bucket(t, core.TokenBucketOptions{
			TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20,
		}))
		takes(t, l, 10)
		a := key(l, "a")
		queues(t, a, 5)
		queues(t, a, 5)
		rejected(t, l, 3, 3*time.Second)
		acquiresWithin(t, a, 1, 10*time.Second).rejected(t, "deadline too soon", 11*time.Second)
		fits := acquiresWithin(t, a, 1, 11*time.Second)
		fits.waits(t)
		b := acquiresWithin(t, key(l, "b"), 3, 3*time.Second)
		b.waits(t)
		acquiresWithin(t, key(l, "c"), 3, 3*time.Second-1).rejected(t, "deadline too soon", 3*time.Second)
		acquiresWithin(t, as{l, core.Flow{Priority: 1}}, 3, 3*time.Second).waits(t)
		time.Sleep(3 * time.Second)
		b.fails(t, context.DeadlineExceeded) // the higher priority came first
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

// A request keeps its flow through Updates to another order and back.
func TestFlowsSurviveAnotherOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 10, QueueOrder: core.FairShare}
		l, err := core.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		lease := takes(t, l, 1)
		served := make(chan string, 10)
		for i, key := range []string{"a", "a", "a", "b", "a", "b"} {
			go func() {
				k, err := l.Acquire(core.WithFlow(t.Context(), core.Flow{Key: key}), 1)
				if err != nil {
					t.Error(err)
				}
				served <- key
				k.Release()
			}()
			synctest.Wait()
			if i == 4 { // the last one waits from the beginning under another order
				o.QueueOrder = core.OldestFirst
				require.NoError(t, l.Update(o))
			}
		}
		o.QueueOrder = core.FairShare
		require.NoError(t, l.Update(o))
		lease.Release()
		require.Equal(t, []string{"a", "b"}, []string{<-served, <-served})
		for range 4 {
			<-served
		}
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

func TestNobodyOvertakesUnderOldestFirst(t *testing.T) {
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
	t.Run("serves the newest, and stops at the first that does not fit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newest(t, 5, 20)
			a, b := takes(t, l, 2), takes(t, l, 3)
			first, second, third := queues(t, l, 2), queues(t, l, 4), queues(t, l, 2)
			a.Release()
			third.granted(t)
			b.Release()
			first.waits(t) // it would fit, but the second comes before it
			second.waits(t)
			available(t, l, 3)
			second.cancelled(t)
			first.granted(t)
		})
	})
	t.Run("a newcomer that fits goes first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newest(t, 5, 20)
			takes(t, l, 3)
			big := queues(t, l, 3)
			takes(t, l, 1)
			acquires(t, l, 1).granted(t)
			big.waits(t)
		})
	})
	t.Run("evicts the oldest, whole, until the newcomer fits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newest(t, 5, 6)
			held := takes(t, l, 5)
			a, b, c := queues(t, l, 2), queues(t, l, 2), queues(t, l, 2)
			d := queues(t, l, 3)
			a.rejected(t, "evicted by a newer request", 0)
			b.rejected(t, "evicted by a newer request", 0)
			counts(t, l, 5, 0, 5, 1, 2)

			// More than the queue holds evicts nobody.
			require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: 7, QueueLimit: 6, QueueOrder: core.NewestFirst}))
			takes(t, l, 2)
			acquires(t, l, 7).rejected(t, "queue limit reached", 0)
			c.waits(t)
			d.waits(t)
			held.Release()
			d.granted(t)
			c.granted(t)
			counts(t, l, 7, 0, 0, 4, 3)
		})
	})
}
