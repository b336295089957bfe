package channel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// over reports whether the channel's Done is closed.
func over(c *channel.LimitedChannel[int]) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// The first close decides, and its error is returned once the channel is empty.
func TestCloseWithError(t *testing.T) {
	broken := errors.New("broken")
	c := bounded(t, 2)
	sends(t, c, 1)
	require.NoError(t, c.CloseWithError(broken))
	require.NoError(t, c.CloseWithError(errors.New("too late")))
	require.NoError(t, c.Close())
	require.Equal(t, channel.ErrClosed, c.TrySend(2), "not: full")
	require.ErrorIs(t, channel.ErrClosed, core.ErrClosed)
	require.NoError(t, c.Err(), "not yet empty")
	receives(t, c, 1)
	require.Equal(t, broken, c.Err())
	_, err := c.Receive(t.Context())
	require.Equal(t, broken, err)
	_, _, err = c.ReceiveLease(t.Context())
	require.Equal(t, broken, err)
	n, err := c.ReceiveBatch(t.Context(), make([]int, 1))
	require.Equal(t, broken, err)
	require.Zero(t, n)
}

// closer is someone's limiter, in whose Acquire the channel is closed.
type closer struct {
	core.Limiter
	c *channel.LimitedChannel[int]
}

func (l *closer) Acquire(ctx context.Context, _ int) (core.Lease, error) {
	_ = l.c.Close()
	<-ctx.Done()
	return core.Fail(ctx.Err()), ctx.Err()
}

func TestCloseBeforeTheLimiterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &closer{Limiter: core.Unlimited()}
		l.c = open(t, channel.Options[int]{Limiter: l})
		send := startSend(t.Context(), l.c, 1)
		send.ends(t, channel.ErrClosed)
		require.True(t, over(l.c))
	})
}

// OnDrop is called when the permits of the dropped items are back.
func TestDiscard(t *testing.T) {
	l := permits(t, 3)
	dropped := 0
	c := open(t, channel.Options[int]{Limiter: l, OnDrop: func(int) {
		dropped++
		require.Equal(t, 3, l.Available())
	}})
	sends(t, c, 1, 2, 3)
	require.Equal(t, 3, c.Discard())
	require.Equal(t, 3, dropped)
}

func TestZeroValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c channel.LimitedChannel[int]
		require.ErrorIs(t, c.TrySend(1), channel.ErrClosed)
		require.ErrorIs(t, c.Send(t.Context(), 1), channel.ErrClosed)
		require.ErrorIs(t, c.WaitToSend(t.Context()), channel.ErrClosed)
		require.ErrorIs(t, c.WaitToReceive(t.Context()), channel.ErrClosed)
		_, err := c.Receive(t.Context())
		require.ErrorIs(t, err, channel.ErrClosed)
		_, ok := c.TryReceive()
		require.False(t, ok)
		_, ok = c.TryPeek()
		require.False(t, ok)
		_, ok = <-c.Chan(t.Context())
		require.False(t, ok)
		require.Zero(t, c.Discard())
		require.Zero(t, c.Len())
		require.NoError(t, c.Err())
		require.NoError(t, c.Close())
		require.True(t, over(&c))
	})
}

func TestNew(t *testing.T) {
	for _, n := range []int{0, -1} {
		_, err := channel.Bounded[int](n)
		require.ErrorContains(t, err, "want at least 1")
	}
	_, err := channel.New(channel.Options[int]{Capacity: -1, Overflow: 7})
	require.ErrorContains(t, err, "channel: Options.Limiter = nil")
	require.ErrorContains(t, err, "channel: Options.Capacity = -1, want at least 0")
	require.ErrorContains(t, err, "channel: Options.Overflow = 7")
	_, err = channel.New(channel.Options[int]{Limiter: (*core.TokenBucket)(nil)})
	require.ErrorContains(t, err, "channel: Options.Limiter = nil")
}

// A channel that is closed while a send asks the limiter says so, drops nothing, and holds nothing, whatever the limiter
// answers.
func TestCloseWhileATrySendAsks(t *testing.T) {
	for mode := channel.Wait; mode <= channel.DropIncoming; mode++ {
		held := 1
		for name, reply := range map[string]core.Lease{"rejection": core.Reject(), "grant": core.Grant(1, func() { held-- })} {
			l := &user{Limiter: core.Unlimited()}
			c := open(t, channel.Options[int]{Overflow: mode, Limiter: l})
			sends(t, c, 1)
			l.try = func(int) core.Lease { _ = c.Close(); return reply }
			require.Equal(t, channel.ErrClosed, c.TrySend(2), "%v, %s", mode, name)
			holds(t, c, 1)
		}
		require.Zero(t, held, "%v", mode)
	}
}
