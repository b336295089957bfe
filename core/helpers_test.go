package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// concurrency returns a limiter of that many permits, with room for as many to wait.
func concurrency(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	require.NoError(tb, err)
	return l
}

func bucket(tb testing.TB, o core.TokenBucketOptions) *core.TokenBucket {
	tb.Helper()
	l, err := core.NewTokenBucket(o)
	require.NoError(tb, err)
	return l
}

func fixed(tb testing.TB, o core.FixedWindowOptions) *core.FixedWindow {
	tb.Helper()
	l, err := core.NewFixedWindow(o)
	require.NoError(tb, err)
	return l
}

func sliding(tb testing.TB, o core.SlidingWindowOptions) *core.SlidingWindow {
	tb.Helper()
	l, err := core.NewSlidingWindow(o)
	require.NoError(tb, err)
	return l
}

func chain(tb testing.TB, limiters ...core.Limiter) *core.ChainedLimiter {
	tb.Helper()
	c, err := core.Chain(limiters...)
	require.NoError(tb, err)
	return c
}

// four returns one limiter of each kind with that limit and room to wait. The rates give
// all permits back a second after the first was taken.
func four(tb testing.TB, limit, queue int) map[string]everything {
	tb.Helper()
	return map[string]everything{
		"concurrency": concurrency(tb, limit, queue),
		"bucket": bucket(tb, core.TokenBucketOptions{
			TokenLimit: limit, TokensPerPeriod: limit, ReplenishmentPeriod: time.Second, QueueLimit: queue,
		}),
		"fixed": fixed(tb, core.FixedWindowOptions{PermitLimit: limit, Window: time.Second, QueueLimit: queue}),
		"sliding": sliding(tb, core.SlidingWindowOptions{
			PermitLimit: limit, Window: time.Second, SegmentsPerWindow: 2, QueueLimit: queue,
		}),
	}
}

// eachOfFour runs a test on one limiter of each kind, in a bubble of its own.
func eachOfFour(t *testing.T, limit, queue int, test func(t *testing.T, l everything)) {
	t.Helper()
	for _, name := range []string{"concurrency", "bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, four(t, limit, queue)[name]) })
		})
	}
}

// takes finds that the permits are there, and takes them.
func takes(tb testing.TB, l core.Limiter, permits int) core.Lease {
	tb.Helper()
	lease := l.TryAcquire(permits)
	require.NoError(tb, lease.Err())
	require.True(tb, lease.Acquired())
	require.Equal(tb, permits, lease.Permits())
	return lease
}

// rejected tries to take permits, which must fail, to be retried after that time; 0: the
// lease does not say when.
func rejected(tb testing.TB, l core.Limiter, permits int, retryAfter time.Duration) core.Lease {
	tb.Helper()
	lease := l.TryAcquire(permits)
	require.False(tb, lease.Acquired())
	require.Zero(tb, lease.Permits())
	rejection(tb, lease.Err(), "permits exhausted", retryAfter)
	return lease
}

// refused tries to take permits, which must fail with the error.
func refused(tb testing.TB, l core.Limiter, permits int, err error) {
	tb.Helper()
	lease := l.TryAcquire(permits)
	require.False(tb, lease.Acquired())
	failed(tb, err, lease.Err(), permits)
}

// failed finds the error to be the one expected, unchanged, or if that is
// ErrPermitsExceedLimit, to have the number of permits.
func failed(tb testing.TB, want, got error, permits int) {
	tb.Helper()
	if !errors.Is(want, core.ErrPermitsExceedLimit) {
		require.Equal(tb, want, got)
		return
	}
	var e *core.ExceedsLimitError
	require.ErrorAs(tb, got, &e)
	require.ErrorIs(tb, got, want)
	require.NotErrorIs(tb, got, core.ErrRejected)
	require.Equal(tb, permits, e.Permits)
	require.Greater(tb, e.Permits, e.Limit)
}

// rejection finds the error to be a rejection for that reason.
func rejection(tb testing.TB, err error, reason string, retryAfter time.Duration) {
	tb.Helper()
	var e *core.RejectedError
	require.ErrorAs(tb, err, &e)
	require.ErrorIs(tb, err, core.ErrRejected)
	require.Equal(tb, reason, e.Reason)
	require.Equal(tb, retryAfter, e.RetryAfter)
}

func available(tb testing.TB, l core.Limiter, permits int) {
	tb.Helper()
	require.Equal(tb, permits, l.Available())
}

// counts compares the limiter's statistics with all five numbers.
func counts(tb testing.TB, l core.Reporter, limit, available, queued int, granted, rejected uint64) {
	tb.Helper()
	require.Equal(tb, core.Statistics{
		Limit: limit, Available: available, Queued: queued, Granted: granted, Rejected: rejected,
	}, l.Statistics())
}

// an acquire is a call of Acquire on a goroutine of its own, in a bubble.
type acquire struct {
	permits int
	cancel  context.CancelFunc
	done    atomic.Bool // then the rest is there to be read
	lease   core.Lease
	err     error
	at      time.Time
}

func acquires(tb testing.TB, l core.Limiter, permits int) *acquire {
	tb.Helper()
	return acquiresWithin(tb, l, permits, 0)
}

// acquiresWithin gives the call a deadline; 0: none.
func acquiresWithin(tb testing.TB, l core.Limiter, permits int, timeout time.Duration) *acquire {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	if timeout > 0 {
		cancel()
		ctx, cancel = context.WithTimeout(tb.Context(), timeout)
	}
	a := &acquire{permits: permits, cancel: cancel}
	tb.Cleanup(cancel)
	go func() {
		a.lease, a.err = l.Acquire(ctx, permits)
		a.at = time.Now()
		a.done.Store(true)
	}()
	synctest.Wait()
	return a
}

// queues starts an Acquire that must wait.
func queues(tb testing.TB, l core.Limiter, permits int) *acquire {
	tb.Helper()
	a := acquires(tb, l, permits)
	a.waits(tb)
	return a
}

func (a *acquire) waits(tb testing.TB) {
	tb.Helper()
	synctest.Wait()
	if a.done.Load() {
		require.Fail(tb, "does not wait", "answered: %v", a.err)
	}
}

// granted finds that the call got its permits at this very instant.
func (a *acquire) granted(tb testing.TB) core.Lease {
	tb.Helper()
	synctest.Wait()
	require.True(tb, a.done.Load(), "still waits")
	require.NoError(tb, a.err)
	require.True(tb, a.lease.Acquired())
	require.Equal(tb, time.Now(), a.at)
	return a.lease
}

// fails finds that the call ended with the error, at this very instant.
func (a *acquire) fails(tb testing.TB, err error) {
	tb.Helper()
	synctest.Wait()
	require.True(tb, a.done.Load(), "still waits")
	failed(tb, err, a.err, a.permits)
	require.False(tb, a.lease.Acquired())
	require.Equal(tb, a.err, a.lease.Err())
	require.Equal(tb, time.Now(), a.at)
}

// canceled cancels the call, and finds that this ended it.
func (a *acquire) canceled(tb testing.TB) {
	tb.Helper()
	a.waits(tb)
	a.cancel()
	a.fails(tb, context.Canceled)
}

// rejected finds that the call was rejected for that reason.
func (a *acquire) rejected(tb testing.TB, reason string, retryAfter time.Duration) {
	tb.Helper()
	synctest.Wait()
	require.True(tb, a.done.Load(), "still waits")
	rejection(tb, a.err, reason, retryAfter)
	require.Same(tb, a.err, a.lease.Err())
	got, _ := core.RetryAfter.From(a.lease)
	require.Equal(tb, retryAfter, got)
	phrase, _ := core.ReasonPhrase.From(a.lease)
	require.Equal(tb, reason, phrase)
}

func TestMain(m *testing.M) {
	injectWall()
	testkit.Main(m)
}
