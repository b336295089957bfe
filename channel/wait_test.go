package channel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// A channel over a limiter whose queue is disabled is a bounded channel: its sends wait, in the order of the
// calls, and no rejection is counted.
func TestSendsWaitWhateverTheQueueLimitIs(t *testing.T) {
	l := refusing(t, 2)
	for name, limiter := range limiters(t, l) {
		if name == "wrapped" {
			continue // a user's limiter, whose rejection is the answer
		}
		bubble(t, name, func(t *testing.T) {
			c := open(t, channel.Options[int]{Limiter: limiter})
			require.NoError(t, c.Send(t.Context(), 1))
			rejected := l.Statistics().Rejected
			batch := start(func() (int, error) { return c.SendBatch(t.Context(), []int{2, 3}) })
			batch.waits(t)
			fourth := startSend(t.Context(), c, 4)
			fourth.waits(t)
			ready := start(func() (int, error) { return 0, c.WaitToSend(t.Context()) })
			ready.waits(t)
			require.Equal(t, 2, l.Statistics().Queued)
			receives(t, c, 1)
			require.Equal(t, 2, batch.ends(t, nil))
			fourth.waits(t)
			receives(t, c, 2)
			fourth.ends(t, nil)
			ready.waits(t)
			receives(t, c, 3)
			ready.ends(t, nil)
			require.Equal(t, rejected, l.Statistics().Rejected)
			refuses(t, func() error { sends(t, c, 5); return c.TrySend(6) }(), reasonOf(name))
			holds(t, c, 4, 5)
			require.Equal(t, 2, l.Available())
		})
	}
	bubble(t, "a rate", func(t *testing.T) {
		c := open(t, channel.Options[int]{Limiter: bucket(t, 1, 0)})
		start := time.Now()
		n, err := c.SendBatch(t.Context(), numbers(4))
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.NoError(t, c.WaitToSend(t.Context()))
		require.Equal(t, 4*time.Second, time.Since(start))

		require.NoError(t, c.Send(t.Context(), 5))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err = c.Send(ctx, 6)
		refuses(t, err, "deadline too soon")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		holds(t, c, 1, 2, 3, 4, 5)
	})
	bubble(t, "until the limiter is closed", func(t *testing.T) {
		l := refusing(t, 1)
		c := open(t, channel.Options[int]{Limiter: l})
		sends(t, c, 1)
		send := startSend(t.Context(), c, 2)
		send.waits(t)
		require.NoError(t, l.Close())
		send.ends(t, core.ErrClosed)
		holds(t, c, 1)
	})
}

// An item whose send is in progress when OnDrop panics is queued, or holds nothing.
func TestOnDropThatPanics(t *testing.T) {
	for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest, channel.DropIncoming} {
		for _, capacity := range []int{0, 1} {
			counted := refusing(t, 1+capacity)
			for name, l := range limiters(t, counted) {
				panics := true
				c := open(t, channel.Options[int]{Limiter: l, Capacity: capacity, Overflow: mode, OnDrop: func(int) {
					if panics {
						panic("odd")
					}
				}})
				sends(t, c, 1)
				require.PanicsWithValue(t, "odd", func() { _ = c.TrySend(2) }, name)
				require.Equal(t, 1+capacity-c.Len(), counted.Available(), name)
				panics = false
				sends(t, c, 3)
				require.Equal(t, 1, c.Discard())
				require.Equal(t, 1+capacity, counted.Available(), name)
			}
		}
	}
}
