package channel_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

func resize(t *testing.T, l *core.ConcurrencyLimiter, n int) {
	t.Helper()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: n, QueueLimit: math.MaxInt}))
}

// A channel is resized by its limiter.
func TestLimitMovesWhileItemsAreQueued(t *testing.T) {
	bubble(t, "grown, it lets in senders that wait", func(t *testing.T) {
		l := permits(t, 1)
		c := open(t, channel.Options[int]{Limiter: l})
		sends(t, c, 1)
		second, third := startSend(t.Context(), c, 2), startSend(t.Context(), c, 3)
		resize(t, l, 2)
		second.ends(t, nil)
		third.waits(t)
		resize(t, l, 3)
		third.ends(t, nil)
		holds(t, c, 1, 2, 3)
	})
	bubble(t, "shrunk, it keeps its items and takes none until it fits", func(t *testing.T) {
		l := permits(t, 3)
		c := open(t, channel.Options[int]{Limiter: l})
		sends(t, c, 1, 2, 3)
		resize(t, l, 1)
		require.Equal(t, 3, c.Len())
		fourth := startSend(t.Context(), c, 4)
		receives(t, c, 1, 2)
		fourth.waits(t)
		receives(t, c, 3)
		fourth.ends(t, nil)
		holds(t, c, 4)
		require.Equal(t, 1, l.Available())
	})
}

// Items that Chans return may exceed the capacity; then none is sent until as many have left.
func TestCapacityOnceChansGaveItemsBack(t *testing.T) {
	for _, mode := range []channel.Overflow{channel.Reject, channel.DropOldest, channel.DropNewest} {
		bubble(t, mode.String(), func(t *testing.T) {
			c, dropped := dropping(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1, Overflow: mode})
			ctx, cancel := context.WithCancel(t.Context())
			c.Chan(ctx)
			c.Chan(ctx)
			for i := range 3 {
				sends(t, c, i+1)
				synctest.Wait()
			}
			require.Equal(t, 3, c.Len())
			cancel()
			synctest.Wait()
			require.Equal(t, 3, c.Len())
			if mode == channel.Reject {
				refuses(t, c.TrySend(5), "capacity reached")
				receives(t, c, 1, 2)
				refuses(t, c.TrySend(5), "capacity reached")
				holds(t, c, 3)
				return
			}
			sends(t, c, 5)
			require.Len(t, *dropped, 3)
			holds(t, c, 5)
		})
	}
}
