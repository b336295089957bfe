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

func TestRejectionsCarryTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := bucket(t, core.TokenBucketOptions{
			Name: "b", TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 1,
		})
		l := core.WithReason(inner, "too many log-ins")
		takes(t, l, 2)
		lease := l.TryAcquire(1)
		rejection(t, lease.Err(), "too many log-ins", time.Second)
		require.Equal(t, map[string]any{
			"LIMITER_NAME": "b", "WINDOW": 2 * time.Second, "PERMIT_LIMIT": 2, "REMAINING": 0, "RESET_AFTER": 2 * time.Second,
			"RETRY_AFTER": time.Second, "REASON_PHRASE": "too many log-ins",
		}, metadata(t, lease))
		acquires(t, l, 2).rejected(t, "too many log-ins", 2*time.Second)
		hopeless := acquiresWithin(t, l, 1, time.Millisecond)
		hopeless.rejected(t, "too many log-ins", time.Second)
		require.ErrorIs(t, hopeless.err, context.DeadlineExceeded)
		rejection(t, inner.TryAcquire(1).Err(), "permits exhausted", time.Second)

		// All else is the limiter's.
		refused(t, l, 3, core.ErrPermitsExceedLimit)
		refused(t, l, -1, core.ErrNegativePermits)
		a := queues(t, l, 1)
		a.cancelled(t)
		require.Equal(t, inner.Statistics(), l.(core.Reporter).Statistics())
		require.Equal(t, inner.Available(), l.Available())
		require.Equal(t, time.Second, l.(core.Replenisher).ReplenishmentPeriod())
		require.True(t, l.(core.Replenisher).AutoReplenishing())
		require.False(t, l.(core.Replenisher).TryReplenish())
		time.Sleep(5 * time.Second)
		lease = takes(t, l, 2)
		_, idle := l.(core.Idler).IdleFor()
		require.False(t, idle)
		l.(core.Refunder).Refund(lease)
		available(t, inner, 2)
		idleFor(t, l.(core.Idler), 0)
		require.NoError(t, l.(interface{ Close() error }).Close())
		refused(t, inner, 1, core.ErrClosed)
		refused(t, l, 1, core.ErrClosed)
	})
}

func TestAReasonForAConcurrencyLimiter(t *testing.T) {
	l := core.WithReason(concurrency(t, 1, 0), "one at a time")
	_, ok := l.(core.Replenisher)
	require.False(t, ok)
	lease := takes(t, l, 1)
	rejection(t, l.TryAcquire(1).Err(), "one at a time", 0)
	lease.Release()
	takes(t, l, 1)
	outer := core.WithReason(l, "again")
	rejection(t, outer.TryAcquire(1).Err(), "again", 0)
}

// theirs is somebody else's limiter.
type theirs struct {
	lease core.Lease
	err   error
	left  int
}

func (l theirs) TryAcquire(int) core.Lease { return l.lease }
func (l theirs) Available() int            { return l.left }

func (l theirs) Acquire(context.Context, int) (core.Lease, error) { return l.lease, l.err }

func TestAReasonForSomebodyElsesLimiter(t *testing.T) {
	mine := errors.New("mine")
	l := core.WithReason(theirs{lease: core.Fail(mine), err: mine, left: 3}, "why")
	refused(t, l, 1, mine)
	_, err := l.Acquire(t.Context(), 1)
	require.Equal(t, mine, err)
	require.Equal(t, 3, l.Available())

	r := core.Reject(core.RetryAfter.With(time.Second), core.ReasonPhrase.With("no"))
	l = core.WithReason(theirs{lease: r, err: r.Err()}, "why")
	rejection(t, l.TryAcquire(1).Err(), "why", time.Second)
	lease, err := l.Acquire(t.Context(), 1)
	rejection(t, err, "why", time.Second)
	require.Equal(t, err, lease.Err())

	// A careless one: the error alone says what happened.
	l = core.WithReason(theirs{err: mine}, "why")
	lease, err = l.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, mine)
	require.Equal(t, err, lease.Err())

	// One that makes its rejection itself.
	own := core.Fail(&core.RejectedError{Limiter: "x", RetryAfter: time.Second})
	l = core.WithReason(theirs{lease: own, err: own.Err()}, "why")
	phrase, ok := core.ReasonPhrase.From(l.TryAcquire(1))
	require.True(t, ok)
	require.Equal(t, "why", phrase)
}
