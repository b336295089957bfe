package channel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/internal/testkit"
)

// The error of a context comes back unchanged wherever a call waits, also from a context that embeds one of
// package context and has an Err of its own.
func TestTheErrorOfAContextComesBackUnchanged(t *testing.T) {
	errOwn := errors.New("own")
	send := func(ctx context.Context, c *channel.LimitedChannel[int]) error { return c.Send(ctx, 2) }
	waitToSend := func(ctx context.Context, c *channel.LimitedChannel[int]) error { return c.WaitToSend(ctx) }
	receive := func(ctx context.Context, c *channel.LimitedChannel[int]) error {
		_, err := c.Receive(ctx)
		return err
	}
	waitToReceive := func(ctx context.Context, c *channel.LimitedChannel[int]) error { return c.WaitToReceive(ctx) }
	for name, test := range map[string]struct {
		c    *channel.LimitedChannel[int]
		call func(context.Context, *channel.LimitedChannel[int]) error
		full bool
	}{
		"Send, permits":         {open(t, channel.Options[int]{Limiter: permits(t, 1)}), send, true},
		"Send, leases":          {open(t, channel.Options[int]{Limiter: wrapped{permits(t, 1)}}), send, true},
		"Send, room":            {open(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1}), send, true},
		"Send, bounded":         {bounded(t, 1), send, true},
		"WaitToSend, permits":   {open(t, channel.Options[int]{Limiter: permits(t, 1)}), waitToSend, true},
		"WaitToSend, room":      {bounded(t, 1), waitToSend, true},
		"Receive":               {bounded(t, 1), receive, false},
		"WaitToReceive":         {bounded(t, 1), waitToReceive, false},
		"Receive, with limiter": {open(t, channel.Options[int]{Limiter: permits(t, 1)}), receive, false},
	} {
		bubble(t, name, func(t *testing.T) {
			if test.full {
				sends(t, test.c, 1)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			require.Equal(t, errOwn, test.call(testkit.OwnError{Context: ctx, Own: errOwn}, test.c))
			require.Equal(t, time.Second, time.Since(start))
			if test.full {
				holds(t, test.c, 1)
			}
		})
	}
}

// A call whose ctx is done sends, takes and drops nothing, though there is room, or an item, or the channel is closed.
func TestADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := permits(t, 2)
	for _, c := range []*channel.LimitedChannel[int]{
		bounded(t, 2), open(t, channel.Options[int]{Limiter: l}),
		open(t, channel.Options[int]{Limiter: refusing(t, 1), Overflow: channel.DropIncoming, OnDrop: func(int) { t.Error("dropped") }}),
	} {
		require.Equal(t, context.Canceled, c.Send(ctx, 1))
		sends(t, c, 1)
		require.Equal(t, context.Canceled, c.Send(ctx, 1))
		_, err := c.Receive(ctx)
		require.Equal(t, context.Canceled, err)
		_, lease, err := c.ReceiveLease(ctx)
		require.Equal(t, context.Canceled, err)
		require.False(t, lease.Acquired())
		n, err := c.ReceiveBatch(ctx, make([]int, 2))
		require.Equal(t, context.Canceled, err)
		require.Zero(t, n)
		require.Equal(t, context.Canceled, c.WaitToReceive(ctx))
		for v := range c.All(ctx) {
			t.Errorf("yielded %d", v)
		}
		require.NoError(t, c.Close())
		require.Equal(t, context.Canceled, c.Send(ctx, 1))
		holds(t, c, 1)
	}
	require.EqualValues(t, 1, l.Statistics().Granted)
}
