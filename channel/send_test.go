package channel_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

func TestTrySend(t *testing.T) {
	t.Run("beyond the capacity permits are refunded", func(t *testing.T) {
		l := bucket(t, 5, 0)
		c := open(t, channel.Options[int]{Limiter: l, Capacity: 2})
		sends(t, c, 1, 2)
		refuses(t, c.TrySend(3), "capacity reached")
		require.Equal(t, 3, l.Available())
		holds(t, c, 1, 2)
		require.Equal(t, 3, l.Available(), "a bucket's tokens do not come back by receiving")
	})
	t.Run("does not overtake a sender that waits for capacity", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := permits(t, 10)
			c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
			sends(t, c, 1)
			second := startSend(t.Context(), c, 2)
			second.waits(t)
			require.Equal(t, 8, l.Available())
			receives(t, c, 1)
			refuses(t, c.TrySend(3), "capacity reached")
			second.ends(t, nil)
			require.Equal(t, 9, l.Available())
			holds(t, c, 2)
		})
	})
}

func TestSend(t *testing.T) {
	t.Run("a done ctx sends nothing, though there is room", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := permits(t, 2)
		c := open(t, channel.Options[int]{Limiter: l})
		require.Equal(t, context.Canceled, c.Send(ctx, 1))
		require.Equal(t, context.Canceled, bounded(t, 1).Send(ctx, 1))
		require.Equal(t, 2, l.Available())
		require.Zero(t, l.Statistics().Granted)
		require.Zero(t, c.Len())
		require.NoError(t, c.Close())
		require.Equal(t, context.Canceled, c.Send(ctx, 1))
	})
	bubble(t, "canceled while it waits for capacity, it refunds", func(t *testing.T) {
		l := bucket(t, 5, 0)
		c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
		sends(t, c, 1)
		ctx, cancel := context.WithCancel(t.Context())
		second := startSend(ctx, c, 2)
		require.Equal(t, 3, l.Available())
		cancel()
		second.ends(t, context.Canceled)
		require.Equal(t, 4, l.Available())
		holds(t, c, 1)
	})
	bubble(t, "canceled before the receiver made room", func(t *testing.T) {
		for _, c := range []*channel.LimitedChannel[int]{
			bounded(t, 1), open(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1}),
		} {
			sends(t, c, 1)
			ctx, cancel := context.WithCancel(t.Context())
			second, third := startSend(ctx, c, 2), startSend(t.Context(), c, 3)
			cancel()
			receives(t, c, 1) // before the second can have noticed
			second.ends(t, context.Canceled)
			third.ends(t, nil)
			holds(t, c, 3)
		}
	})
	bubble(t, "granted before it was canceled", func(t *testing.T) {
		c := bounded(t, 1)
		sends(t, c, 0)
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			next := startSend(ctx, c, i+1)
			next.waits(t)
			receives(t, c, i)
			cancel()
			next.ends(t, nil)
		}
		holds(t, c, 5)
	})
}

func TestWaitToSend(t *testing.T) {
	bubble(t, "until there are permits, then room", func(t *testing.T) {
		l := permits(t, 2)
		c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
		require.NoError(t, c.WaitToSend(t.Context()))
		sends(t, c, 1)
		other := l.TryAcquire(1)
		w := start(func() (int, error) { return 0, c.WaitToSend(t.Context()) })
		w.waits(t)
		other.Release()
		w.waits(t)
		receives(t, c, 1)
		w.ends(t, nil)
		require.Equal(t, 2, l.Available())
	})
	bubble(t, "done, canceled, closed", func(t *testing.T) {
		for _, c := range []*channel.LimitedChannel[int]{
			bounded(t, 1), open(t, channel.Options[int]{Limiter: permits(t, 1)}),
			open(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1}),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			sends(t, c, 1)
			w := start(func() (int, error) { return 0, c.WaitToSend(ctx) })
			w.waits(t)
			cancel()
			w.ends(t, context.Canceled)
			receives(t, c, 1)
			require.Equal(t, context.Canceled, c.WaitToSend(ctx))
			sends(t, c, 1)
			w = start(func() (int, error) { return 0, c.WaitToSend(t.Context()) })
			w.waits(t)
			require.NoError(t, c.Close())
			w.ends(t, channel.ErrClosed)
			require.ErrorIs(t, c.WaitToSend(t.Context()), channel.ErrClosed)
		}
	})
}

func TestBounded(t *testing.T) {
	for _, n := range []int{0, -1} {
		_, err := channel.Bounded[int](n)
		require.ErrorContains(t, err, "want at least 1")
	}
	bubble(t, "senders wait as long as it takes", func(t *testing.T) {
		c := bounded(t, 4)
		sends(t, c, 1, 2, 3, 4)
		refuses(t, c.TrySend(5), "permits exhausted")
		fifth, sixth := startSend(t.Context(), c, 5), startSend(t.Context(), c, 6)
		fifth.waits(t)
		sixth.waits(t)
		receives(t, c, 1)
		refuses(t, c.TrySend(7), "permits exhausted")
		fifth.ends(t, nil)
		sixth.waits(t)
		receives(t, c, 2, 3)
		sixth.ends(t, nil)
		holds(t, c, 4, 5, 6)
	})
	bubble(t, "a kept lease keeps its place", func(t *testing.T) {
		c := bounded(t, 1)
		sends(t, c, 1)
		v, lease, err := c.ReceiveLease(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, v)
		require.True(t, lease.Acquired())
		require.Equal(t, 1, lease.Permits())
		refuses(t, c.TrySend(2), "permits exhausted")
		second, receiver := startSend(t.Context(), c, 2), startReceive(t.Context(), c)
		second.waits(t)
		receiver.waits(t)
		lease.Release()
		lease.Release()
		second.ends(t, nil)
		require.Equal(t, 2, receiver.ends(t, nil))
		sends(t, c, 3)
		refuses(t, c.TrySend(4), "permits exhausted")
		holds(t, c, 3)
	})
}
