package channel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

func TestReceive(t *testing.T) {
	bubble(t, "takes a queued item, or waits", func(t *testing.T) {
		l := permits(t, 2)
		c := open(t, channel.Options[int]{Limiter: l})
		sends(t, c, 1)
		first, second := startReceive(t.Context(), c), startReceive(t.Context(), c)
		require.Equal(t, 1, first.ends(t, nil))
		second.waits(t)
		sends(t, c, 2)
		require.Equal(t, 2, l.Available(), "handed over: released before TrySend returns")
		require.Equal(t, 2, second.ends(t, nil))
		require.Zero(t, c.Len())
	})
	bubble(t, "the receiver who waited longest is first", func(t *testing.T) {
		c := bounded(t, 4)
		first, second := startReceive(t.Context(), c), startReceive(t.Context(), c)
		sends(t, c, 1, 2, 3)
		require.Equal(t, 1, first.ends(t, nil))
		require.Equal(t, 2, second.ends(t, nil))
		holds(t, c, 3)
	})
	t.Run("a done ctx takes nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := bounded(t, 2)
		sends(t, c, 1)
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
		holds(t, c, 1)
	})
	bubble(t, "canceled before the item came, it loses none", func(t *testing.T) {
		for _, c := range []*channel.LimitedChannel[int]{bounded(t, 2), open(t, channel.Options[int]{Limiter: permits(t, 2)})} {
			ctx, cancel := context.WithCancel(t.Context())
			first := startReceive(ctx, c)
			cancel()
			sends(t, c, 1) // before the first can have noticed
			first.ends(t, context.Canceled)
			holds(t, c, 1)
			second := startReceive(t.Context(), c)
			sends(t, c, 2)
			require.Equal(t, 2, second.ends(t, nil))
		}
	})
}

func TestReceiveLease(t *testing.T) {
	bubble(t, "the receiver holds what the item cost", func(t *testing.T) {
		l := permits(t, 10)
		c := open(t, channel.Options[int]{Limiter: l, Permits: itself})
		sends(t, c, 4)
		v, queued, err := c.ReceiveLease(t.Context())
		require.NoError(t, err)
		require.Equal(t, 4, v)
		require.Equal(t, 4, queued.Permits())
		require.Equal(t, 6, l.Available())

		waiting := start(func() (core.Lease, error) {
			_, lease, err := c.ReceiveLease(t.Context())
			return lease, err
		})
		sends(t, c, 5)
		handed := waiting.ends(t, nil)
		require.Equal(t, 1, l.Available())
		handed.Release()
		queued.Release()
		queued.Release()
		require.Equal(t, 10, l.Available())
	})
}

func TestReceiveBatch(t *testing.T) {
	bubble(t, "lets in all senders for whom it makes room", func(t *testing.T) {
		c := bounded(t, 3)
		sends(t, c, 1, 2, 3)
		fourth, fifth, sixth := startSend(t.Context(), c, 4), startSend(t.Context(), c, 5), startSend(t.Context(), c, 6)
		dst := make([]int, 3)
		n, err := c.ReceiveBatch(t.Context(), dst)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3}, dst[:n])
		fourth.ends(t, nil)
		fifth.ends(t, nil)
		sixth.ends(t, nil)
		holds(t, c, 4, 5, 6)
	})
}

func TestWaitToReceive(t *testing.T) {
	bubble(t, "until an item is there", func(t *testing.T) {
		c := bounded(t, 2)
		a := start(func() (int, error) { return 0, c.WaitToReceive(t.Context()) })
		b := start(func() (int, error) { return 0, c.WaitToReceive(t.Context()) })
		a.waits(t)
		sends(t, c, 1)
		a.ends(t, nil)
		b.ends(t, nil)
		require.NoError(t, c.WaitToReceive(t.Context()))
		holds(t, c, 1)
	})
	bubble(t, "canceled, closed", func(t *testing.T) {
		c := bounded(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		w := start(func() (int, error) { return 0, c.WaitToReceive(ctx) })
		cancel()
		w.ends(t, context.Canceled)
		w = start(func() (int, error) { return 0, c.WaitToReceive(t.Context()) })
		broken := errors.New("broken")
		require.NoError(t, c.CloseWithError(broken))
		w.ends(t, broken)
		require.Equal(t, broken, c.WaitToReceive(t.Context()))
	})
}

func TestAll(t *testing.T) {
	bubble(t, "until closed and empty", func(t *testing.T) {
		c := bounded(t, 2)
		all := start(func() ([]int, error) { return slices.Collect(c.All(t.Context())), nil })
		for i := range 10 {
			require.NoError(t, c.Send(t.Context(), i))
		}
		all.waits(t)
		require.NoError(t, c.Close())
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, all.ends(t, nil))
	})
	bubble(t, "until ctx is done; breaking off loses nothing", func(t *testing.T) {
		c := bounded(t, 4)
		sends(t, c, 1, 2, 3)
		for v := range c.All(t.Context()) {
			if v == 2 {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		all := start(func() ([]int, error) { return slices.Collect(c.All(ctx)), nil })
		all.waits(t)
		cancel()
		require.Equal(t, []int{3}, all.ends(t, nil))
		synctest.Wait()
	})
}
