package channel_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// permits returns a concurrency limiter of that many permits, in whose queue any number
// may wait; refusing returns one in which no caller may.
func permits(tb testing.TB, n int) *core.ConcurrencyLimiter {
	tb.Helper()
	return limiter(tb, core.ConcurrencyLimiterOptions{PermitLimit: n, QueueLimit: math.MaxInt})
}

func refusing(tb testing.TB, n int) *core.ConcurrencyLimiter {
	tb.Helper()
	return limiter(tb, core.ConcurrencyLimiterOptions{PermitLimit: n})
}

func limiter(tb testing.TB, o core.ConcurrencyLimiterOptions) *core.ConcurrencyLimiter {
	tb.Helper()
	l, err := core.NewConcurrencyLimiter(o)
	require.NoError(tb, err)
	return l
}

// bucket returns a token bucket of that many tokens, one of which comes each second.
func bucket(tb testing.TB, tokens, queue int) *core.TokenBucket {
	tb.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: tokens, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: queue,
	})
	require.NoError(tb, err)
	return l
}

func open[T any](tb testing.TB, o channel.Options[T]) *channel.LimitedChannel[T] {
	tb.Helper()
	c, err := channel.New(o)
	require.NoError(tb, err)
	return c
}

func bounded(tb testing.TB, n int) *channel.LimitedChannel[int] {
	tb.Helper()
	c, err := channel.Bounded[int](n)
	require.NoError(tb, err)
	return c
}

// itself is the cost of an int that costs what it is.
func itself(n int) int { return n }

func sends(t *testing.T, c *channel.LimitedChannel[int], items ...int) {
	t.Helper()
	for _, v := range items {
		require.NoError(t, c.TrySend(v), "item %d", v)
	}
}

func receives(t *testing.T, c *channel.LimitedChannel[int], items ...int) {
	t.Helper()
	for _, v := range items {
		got, ok := c.TryReceive()
		require.True(t, ok, "item %d is not there", v)
		require.Equal(t, v, got)
	}
}

// holds receives all that is queued.
func holds(t *testing.T, c *channel.LimitedChannel[int], items ...int) {
	t.Helper()
	require.Equal(t, len(items), c.Len())
	receives(t, c, items...)
	_, ok := c.TryReceive()
	require.False(t, ok, "more than %v is there", items)
}

// refuses requires a RejectedError for want of permits, of that reason.
func refuses(t *testing.T, err error, reason string) {
	t.Helper()
	var rejected *core.RejectedError
	require.ErrorAs(t, err, &rejected)
	require.ErrorIs(t, err, core.ErrRejected)
	require.Equal(t, reason, rejected.Reason)
}

// bubble runs a story in a bubble of its own.
func bubble(t *testing.T, name string, story func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, story) })
}

// call is a call in flight on a goroutine of its own.
type call[R any] struct {
	done   chan struct{}
	result R
	err    error
}

func start[R any](f func() (R, error)) *call[R] {
	c := &call[R]{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.result, c.err = f()
	}()
	synctest.Wait()
	return c
}

func startSend(ctx context.Context, c *channel.LimitedChannel[int], v int) *call[struct{}] {
	return start(func() (struct{}, error) { return struct{}{}, c.Send(ctx, v) })
}

func startReceive(ctx context.Context, c *channel.LimitedChannel[int]) *call[int] {
	return start(func() (int, error) { return c.Receive(ctx) })
}

// waits requires that the call has not returned once all goroutines rest.
func (c *call[R]) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		t.Fatalf("returned %v, %v", c.result, c.err)
	default:
	}
}

// ends requires that the call has returned once all goroutines rest, with err.
func (c *call[R]) ends(t *testing.T, err error) R {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.done:
	default:
		t.Fatal("still waits")
	}
	if err == nil {
		require.NoError(t, c.err)
	} else {
		require.ErrorIs(t, c.err, err)
	}
	return c.result
}
