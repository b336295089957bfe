package channel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

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

func TestAReceiverThatWaitedReturnsOnceTheLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := permits(t, 1)
		c := open(t, channel.Options[int]{Limiter: &user{Limiter: l, acquire: func(ctx context.Context, n int) (core.Lease, error) {
			held, err := l.Acquire(ctx, n)
			return core.Grant(n, func() {
				time.Sleep(time.Second)
				held.Release()
			}), err
		}}})
		waiting := startReceive(t.Context(), c)
		sent := startSend(t.Context(), c, 7)
		waiting.waits(t)
		time.Sleep(time.Second)
		require.Equal(t, 7, waiting.ends(t, nil))
		sent.ends(t, nil)
		require.Equal(t, 1, l.Available())
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
