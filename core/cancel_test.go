package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestCancellingFreesRoomAtOnceAndServesWhoNowFits(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		takes(t, l, 3)
		big, small := queues(t, l, 3), queues(t, l, 2)
		require.ErrorIs(t, acquires(t, l, 1).err, core.ErrRejected, "the queue is full")
		before := l.Statistics()
		big.cancelled(t)
		small.granted(t)
		after := l.Statistics()
		require.Equal(t, before.Rejected, after.Rejected, "a cancelled waiter is not rejected")
		require.Equal(t, before.Granted+1, after.Granted, "nor granted")
		require.Zero(t, after.Queued)
		queues(t, l, 5)
	})
}

func TestCancelledWaitersLeaveNothingTaken(t *testing.T) {
	eachOfFour(t, 1, 10, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		for range 10 {
			queues(t, l, 1).cancelled(t)
		}
		l.Refund(held)
		counts(t, l, 1, 1, 0, 1, 0)
		takes(t, l, 1)
	})
}

// Ten cancelled waiters behind an empty bucket push nobody back.
func TestCancelledWaitersTakeNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 11})
		takes(t, l, 1)
		var all []*acquire
		for range 10 {
			all = append(all, queues(t, l, 1))
		}
		last := queues(t, l, 1)
		rejected(t, l, 1, 12*time.Second)
		for _, a := range all {
			a.cancelled(t)
		}
		rejected(t, l, 1, 2*time.Second)
		time.Sleep(time.Second)
		last.granted(t)
	})
}

func TestADoneContextIsReturnedUnchanged(t *testing.T) {
	eachOfFour(t, 1, 10, func(t *testing.T, l everything) {
		why := errors.New("why")
		takes(t, l, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		var lease core.Lease
		var err error
		go func() { lease, err = l.Acquire(ctx, 1) }()
		synctest.Wait()
		cancel(why)
		synctest.Wait()
		require.Equal(t, context.Canceled, err)
		require.Equal(t, err, lease.Err())
		counts(t, l, 1, 0, 0, 1, 0)
	})
}

func TestAContextThatEndsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1, 1)
		takes(t, l, 1)
		a := acquiresWithin(t, l, 1, time.Second)
		a.waits(t)
		time.Sleep(time.Second)
		a.fails(t, context.DeadlineExceeded)
		require.NotErrorIs(t, a.err, core.ErrRejected)
		counts(t, l, 1, 0, 0, 1, 0)
	})
}

// The context was done before the grant: the cancellation wins, whoever ran first.
func TestDoneBeforeTheGrant(t *testing.T) {
	eachOfFour(t, 1, 3, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		first, second := queues(t, l, 1), queues(t, l, 1)
		first.cancel()
		l.Refund(held) // the waiter's goroutine has not run since
		first.fails(t, context.Canceled)
		lease := second.granted(t)
		l.Refund(lease)
		counts(t, l, 1, 1, 0, 2, 0)
	})
}

// A granted one keeps its permits, whatever becomes of its context.
func TestCancelAfterTheGrant(t *testing.T) {
	eachOfFour(t, 1, 3, func(t *testing.T, l everything) {
		held := takes(t, l, 1)
		a := queues(t, l, 1)
		l.Refund(held)
		lease := a.granted(t)
		a.cancel()
		synctest.Wait()
		available(t, l, 0)
		l.Refund(lease)
		available(t, l, 1)
	})
}
