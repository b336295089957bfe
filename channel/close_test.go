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

func TestClose(t *testing.T) {
	t.Run("queued items can be received", func(t *testing.T) {
		for _, c := range []*channel.LimitedChannel[int]{bounded(t, 2), open(t, channel.Options[int]{Limiter: permits(t, 2)})} {
			sends(t, c, 1, 2)
			require.NoError(t, c.Close())
			require.NoError(t, c.Close())
			require.False(t, over(c))
			require.ErrorIs(t, c.TrySend(3), channel.ErrClosed, "not: full")
			require.ErrorIs(t, c.Send(t.Context(), 3), channel.ErrClosed)
			require.ErrorIs(t, c.TrySend(3), core.ErrClosed)
			receives(t, c, 1)
			require.False(t, over(c))
			v, err := c.Receive(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, v)
			require.True(t, over(c))
			require.NoError(t, c.Err())
			_, err = c.Receive(t.Context())
			require.Equal(t, channel.ErrClosed, err)
			_, ok := c.TryReceive()
			require.False(t, ok)
		}
	})
	t.Run("with an error, the first one", func(t *testing.T) {
		broken := errors.New("broken")
		c := bounded(t, 2)
		sends(t, c, 1)
		require.NoError(t, c.CloseWithError(broken))
		require.NoError(t, c.CloseWithError(errors.New("too late")))
		require.NoError(t, c.Close())
		require.Equal(t, channel.ErrClosed, c.TrySend(2))
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
	})
	bubble(t, "ends the wait of receivers", func(t *testing.T) {
		c := bounded(t, 1)
		a, b := startReceive(t.Context(), c), startReceive(t.Context(), c)
		require.NoError(t, c.Close())
		a.ends(t, channel.ErrClosed)
		b.ends(t, channel.ErrClosed)
		require.True(t, over(c))
	})
	bubble(t, "ends the wait of senders, who hold nothing", func(t *testing.T) {
		held, paced := permits(t, 1), bucket(t, 5, 0)
		chain, err := core.Chain(permits(t, 1), core.Unlimited())
		require.NoError(t, err)
		for name, c := range map[string]*channel.LimitedChannel[int]{
			"for room":                     bounded(t, 1),
			"in the limiter's queue":       open(t, channel.Options[int]{Limiter: held}),
			"in a chain":                   open(t, channel.Options[int]{Limiter: chain}),
			"for capacity, with its lease": open(t, channel.Options[int]{Limiter: paced, Capacity: 1}),
		} {
			sends(t, c, 1)
			withCancel, cancel := context.WithCancel(t.Context())
			second, third := startSend(context.WithoutCancel(t.Context()), c, 2), startSend(withCancel, c, 3)
			second.waits(t)
			third.waits(t)
			require.NoError(t, c.Close(), name)
			second.ends(t, channel.ErrClosed)
			third.ends(t, channel.ErrClosed)
			cancel()
			holds(t, c, 1)
		}
		require.Equal(t, core.Statistics{Limit: 1, Available: 1, Granted: 1}, held.Statistics())
		require.Equal(t, 4, paced.Available())
		require.Equal(t, 1, chain.Available())
	})
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

func TestDiscard(t *testing.T) {
	bubble(t, "drops the queued items, and lets waiting senders continue", func(t *testing.T) {
		l := permits(t, 3)
		var dropped []int
		c := open(t, channel.Options[int]{Limiter: l, OnDrop: func(v int) {
			dropped = append(dropped, v)
			require.Positive(t, l.Available())
		}})
		require.Zero(t, c.Discard())
		sends(t, c, 1, 2, 3)
		fourth := startSend(t.Context(), c, 4)
		fourth.waits(t)
		require.Equal(t, 3, c.Discard())
		require.Equal(t, []int{1, 2, 3}, dropped)
		fourth.ends(t, nil)
		require.Equal(t, 2, l.Available())
		require.NoError(t, c.Close())
		require.False(t, over(c))
		require.Equal(t, 1, c.Discard())
		require.True(t, over(c))
		require.Equal(t, 3, l.Available())
	})
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
	_, err := channel.New(channel.Options[int]{Capacity: -1, Overflow: 7})
	require.ErrorContains(t, err, "channel: Options.Limiter = nil")
	require.ErrorContains(t, err, "channel: Options.Capacity = -1, want at least 0")
	require.ErrorContains(t, err, "channel: Options.Overflow = 7")
	_, err = channel.New(channel.Options[int]{Limiter: (*core.TokenBucket)(nil)})
	require.ErrorContains(t, err, "channel: Options.Limiter = nil")
}

// A channel that is closed while a drop mode asks the limiter says so, and drops nothing, whatever the limiter answers.
func TestCloseWhileADropModeAsks(t *testing.T) {
	for mode := channel.DropOldest; mode <= channel.DropIncoming; mode++ {
		for name, reply := range map[string]core.Lease{"rejection": core.Reject(), "grant": core.Grant(1, nil)} {
			l := &user{Limiter: core.Unlimited()}
			c := open(t, channel.Options[int]{Overflow: mode, Limiter: l})
			sends(t, c, 1)
			l.try = func(int) core.Lease { _ = c.Close(); return reply }
			require.Equal(t, channel.ErrClosed, c.TrySend(2), "%v, %s", mode, name)
			holds(t, c, 1)
		}
	}
}
