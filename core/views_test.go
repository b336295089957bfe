package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		require.Equal(t, time.Second, l.(core.Replenisher).ReplenishmentPeriod())
	})
}

func TestAReasonForAUsersLimiter(t *testing.T) {
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

// shadows returns the shadow of a limiter as all that it is.
func shadows(tb testing.TB, l core.Limiter) everything {
	tb.Helper()
	s, ok := core.Shadow(l).(everything)
	require.True(tb, ok)
	return s
}

// isShadowed finds that the permits are granted by no limiter, with the error that the limiter would
// have given.
func isShadowed(tb testing.TB, lease core.Lease, permits int) error {
	tb.Helper()
	require.True(tb, lease.Acquired())
	require.NoError(tb, lease.Err())
	require.Equal(tb, permits, lease.Permits())
	err, ok := core.Shadowed.From(lease)
	require.True(tb, ok)
	require.Error(tb, err)
	return err
}

func TestAShadowGrantsWhatIsRejected(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		s := shadows(t, l)
		lease := takes(t, s, 4)
		_, ok := core.Shadowed.From(lease)
		require.False(t, ok, "a grant comes back as it is")
		available(t, s, 1)

		retry := time.Second
		if _, rate := l.(core.Replenisher); !rate {
			retry = 0
		}
		start := time.Now()
		rejection(t, isShadowed(t, s.TryAcquire(2), 2), "permits exhausted", retry)
		would, err := s.Acquire(t.Context(), 2)
		require.NoError(t, err)
		rejection(t, isShadowed(t, would, 2), "permits exhausted", retry)
		require.Equal(t, start, time.Now(), "it never waits")
		failed(t, core.ErrPermitsExceedLimit, isShadowed(t, s.TryAcquire(6), 6), 6)
		counts(t, s, 5, 1, 0, 1, 2)
		counts(t, l, 5, 1, 0, 1, 2)

		would.Release()
		would.Refund()
		available(t, s, 1)
		lease.Refund()
		available(t, l, 5)
		idleFor(t, s, 0)

		require.NoError(t, s.Close())
		require.Equal(t, core.ErrClosed, isShadowed(t, s.TryAcquire(1), 1))
		closed, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, core.ErrClosed, isShadowed(t, closed, 1))
		require.Equal(t, core.ErrClosed, isShadowed(t, s.TryAcquire(0), 0))
	})
}

// Done contexts and negative permits are errors as ever, in the contract's order.
func TestAShadowsErrors(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, l := range map[string]core.Limiter{"limiter": concurrency(t, 1, 1), "nil": nil} {
		t.Run(name, func(t *testing.T) {
			s := core.Shadow(l)
			require.Equal(t, core.ErrNegativePermits, s.TryAcquire(-1).Err())
			_, err := s.Acquire(done, -1)
			require.Equal(t, core.ErrNegativePermits, err)
			lease, err := s.Acquire(done, 1)
			require.Equal(t, context.Canceled, err)
			require.Equal(t, err, lease.Err())
			if l != nil {
				available(t, s, 1)
			}
		})
	}
}

// It is what the limiter is.
func TestAShadowIsWhatTheLimiterIs(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		s := core.Shadow(l)
		require.Equal(t, core.Limiter(l), s.(interface{ Unwrap() core.Limiter }).Unwrap())
		require.Contains(t, s.(fmt.Stringer).String(), "shadowed")
		r := s.(core.Replenisher)
		rate, isRate := l.(core.Replenisher)
		if !isRate {
			rate = new(core.ChainedLimiter) // of period 0
		}
		require.Equal(t, rate.ReplenishmentPeriod(), r.ReplenishmentPeriod())
		require.Equal(t, isRate, r.AutoReplenishing())
		require.False(t, r.TryReplenish())
		if isRate {
			takes(t, s, 5)
			s.(core.Resetter).Reset()
			available(t, s, 5)
		}
	})
	s := shadows(t, bareLimiter{concurrency(t, 3, 0)})
	require.Equal(t, core.Statistics{Available: 3}, s.Statistics())
	_, idle := s.IdleFor()
	require.False(t, idle)
	require.NoError(t, s.Close())
	lease := takes(t, s, 2)
	lease.Refund()
	available(t, s, 3)
}

func TestAShadowOfNil(t *testing.T) {
	for _, l := range []core.Limiter{nil, (*core.TokenBucket)(nil)} {
		s := core.Shadow(l)
		err := isShadowed(t, s.TryAcquire(1_000_000), 1_000_000)
		require.ErrorContains(t, err, "nil")
		lease, acquireErr := s.Acquire(t.Context(), 2)
		require.NoError(t, acquireErr)
		require.Equal(t, err, isShadowed(t, lease, 2))
		require.Zero(t, s.Available())
		require.NoError(t, s.(io.Closer).Close())
		require.Equal(t, 3, lease.Settle(3).Permits())
	}
}

// A shadow in a chain rejects no request; the others do, and what the shadow took goes back.
func TestAShadowInAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, slots := concurrency(t, 2, 9), concurrency(t, 5, 9)
		c := chain(t, core.Shadow(watched), slots)
		lease := takes(t, c, 4) // more than the watched one's limit
		_, ok := core.Shadowed.From(lease)
		require.True(t, ok)
		available(t, watched, 2)
		available(t, slots, 1)
		a := queues(t, c, 2)
		available(t, watched, 0)
		a.canceled(t)
		available(t, watched, 2)
		a = queues(t, c, 2)
		lease = lease.Settle(3)
		a.granted(t)
		require.Equal(t, 3, lease.Permits())
		lease.Release()
		a.lease.Release()
		available(t, watched, 2)
		available(t, slots, 5)
	})
}
