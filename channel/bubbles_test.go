package channel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// A channel that was made outside of all bubbles belongs to the one that first uses it.
func TestMadeOutsideOfTheBubble(t *testing.T) {
	for name, c := range map[string]*channel.LimitedChannel[int]{
		"bounded":  bounded(t, 1),
		"counted":  open(t, channel.Options[int]{Limiter: permits(t, 1)}),
		"capacity": open(t, channel.Options[int]{Limiter: permits(t, 9), Capacity: 1}),
		"wrapped":  open(t, channel.Options[int]{Limiter: wrapped{permits(t, 1)}}),
		"tokens":   open(t, channel.Options[int]{Limiter: bucket(t, 1, 9), Capacity: 1}),
	} {
		bubble(t, name, func(t *testing.T) {
			receiver := startReceive(t.Context(), c)
			watcher := start(func() (int, error) { return 0, c.WaitToReceive(t.Context()) })
			require.NoError(t, c.Send(t.Context(), 1))
			require.Equal(t, 1, receiver.ends(t, nil))
			require.NoError(t, c.Send(t.Context(), 2))
			watcher.ends(t, nil)
			sender := startSend(t.Context(), c, 3)
			room := start(func() (int, error) { return 0, c.WaitToSend(t.Context()) })
			receives(t, c, 2)
			time.Sleep(2 * time.Second) // for a token
			sender.ends(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			offers(t, c.Chan(ctx), 3)
			time.Sleep(2 * time.Second)
			room.ends(t, nil)
			cancel()
			synctest.Wait()
			require.Zero(t, c.Len())
			time.AfterFunc(time.Second, func() { _ = c.Close() })
			<-c.Done()
		})
	}
}
