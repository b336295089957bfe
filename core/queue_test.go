package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func newest(t *testing.T, permits, queue int) *core.ConcurrencyLimiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		PermitLimit: permits, QueueLimit: queue, QueueOrder: core.NewestFirst,
	})
	require.NoError(t, err)
	return l
}

func TestTheQueueCountsPermits(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		takes(t, l, 5)
		a := queues(t, l, 2)
		b := queues(t, l, 3)
		counts(t, l, 5, 0, 5, 1, 0)
		c := acquires(t, l, 1)
		require.ErrorIs(t, c.err, core.ErrRejected)
		counts(t, l, 5, 0, 5, 1, 1)
		a.cancelled(t)
		counts(t, l, 5, 0, 3, 1, 1)
		queues(t, l, 2)
		require.NoError(t, l.Close())
		b.fails(t, core.ErrClosed)
	})
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

func TestServingStopsAtTheFirstThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 5, 20)
		one, four := takes(t, l, 1), takes(t, l, 4)
		first, second, third := queues(t, l, 1), queues(t, l, 5), queues(t, l, 1)
		one.Release()
		lease := first.granted(t)
		second.waits(t)
		third.waits(t)
		four.Release()
		second.waits(t)
		third.waits(t)
		available(t, l, 4)
		lease.Release()
		lease = second.granted(t)
		third.waits(t)
		lease.Release()
		third.granted(t)
		counts(t, l, 5, 4, 0, 5, 0)
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

func TestWithoutAQueueNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 0)
		takes(t, l, 1)
		acquires(t, l, 1).rejected(t, "queue limit reached", 0)
		n := newest(t, 1, 0)
		takes(t, n, 1)
		acquires(t, n, 1).rejected(t, "queue limit reached", 0)
		rejected(t, l, 1, 0)
		counts(t, l, 1, 0, 0, 1, 2)
	})
}

func TestSoftCapAndHardCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Two run, three may wait; the sixth is turned away.
		l := concurrency(t, 2, 3)
		running := []core.Lease{takes(t, l, 1), takes(t, l, 1)}
		var waiting []*acquire
		for range 3 {
			waiting = append(waiting, queues(t, l, 1))
		}
		acquires(t, l, 1).rejected(t, "queue limit reached", 0)
		for i, w := range waiting {
			time.Sleep(time.Second)
			running[0].Release()
			running = append(running[1:], w.granted(t))
			counts(t, l, 2, 0, 2-i, uint64(3+i), 1)
		}
		for _, r := range running {
			r.Release()
		}
		counts(t, l, 2, 2, 0, 5, 1)
	})
}

func TestEvictionsSayWhenToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{
			TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 4, QueueOrder: core.NewestFirst,
		})
		takes(t, l, 4)
		a, b := queues(t, l, 1), queues(t, l, 3)
		time.Sleep(300 * time.Millisecond)
		c := queues(t, l, 3)
		a.rejected(t, "evicted by a newer request", 700*time.Millisecond)
		b.rejected(t, "evicted by a newer request", 2700*time.Millisecond)
		time.Sleep(2700 * time.Millisecond)
		c.granted(t)
	})
}

func TestAHopelessNewcomerEvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{
			TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 4, QueueOrder: core.NewestFirst,
		})
		takes(t, l, 4)
		a := queues(t, l, 4)
		hopeless := acquiresWithin(t, l, 2, 1999*time.Millisecond)
		hopeless.rejected(t, "deadline too soon", 2*time.Second)
		require.ErrorIs(t, hopeless.err, context.DeadlineExceeded)
		a.waits(t)
		counts(t, l, 4, 0, 4, 1, 1)
	})
}
