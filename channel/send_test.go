package channel_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// A sender that was given room sends, even if its ctx ends before it notices.
func TestASendThatIsGrantedBeforeItIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
