package channel_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// offers requires that out delivers v now.
func offers(t *testing.T, out <-chan int, v int) {
	t.Helper()
	synctest.Wait()
	select {
	case got, ok := <-out:
		require.True(t, ok)
		require.Equal(t, v, got)
	default:
		t.Fatalf("does not offer %d", v)
	}
	synctest.Wait()
}

func TestChan(t *testing.T) {
	bubble(t, "an item's lease is released when it is taken", func(t *testing.T) {
		l := permits(t, 3)
		c := open(t, channel.Options[int]{Limiter: l})
		out := c.Chan(t.Context())
		sends(t, c, 1, 2)
		synctest.Wait()
		require.Equal(t, 1, l.Available())
		require.Equal(t, 2, c.Len())
		offers(t, out, 1)
		require.Equal(t, 2, l.Available())
		offers(t, out, 2)
		require.Equal(t, 3, l.Available())
		sends(t, c, 3)
		require.NoError(t, c.Close())
		synctest.Wait()
		require.False(t, over(c))
		offers(t, out, 3)
		require.True(t, over(c))
		_, ok := <-out
		require.False(t, ok)
	})
	bubble(t, "when ctx ends, the item keeps its place and its lease", func(t *testing.T) {
		l := permits(t, 3)
		c := open(t, channel.Options[int]{Limiter: l})
		sends(t, c, 1, 2, 3)
		ctx, cancel := context.WithCancel(t.Context())
		out := c.Chan(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case v, ok := <-out:
			require.False(t, ok, "got %d", v)
		default:
			t.Fatal("not closed")
		}
		require.Equal(t, 0, l.Available())
		holds(t, c, 1, 2, 3)
		require.Equal(t, 3, l.Available())
	})
	bubble(t, "an item that is offered is the consumer's", func(t *testing.T) {
		l := permits(t, 4)
		c := open(t, channel.Options[int]{Limiter: l})
		out := c.Chan(t.Context())
		sends(t, c, 1, 2, 3, 4)
		synctest.Wait()
		v, ok := c.TryPeek()
		require.True(t, ok)
		require.Equal(t, 2, v)
		receives(t, c, 2)
		require.Equal(t, 3, c.Len())
		require.Equal(t, 2, c.Discard())
		require.Equal(t, 3, l.Available())
		_, ok = c.TryReceive()
		require.False(t, ok)
		offers(t, out, 1)
		require.Equal(t, 4, l.Available())
		sends(t, c, 5)
		offers(t, out, 5)
		require.NoError(t, c.Close())
		_, ok = <-out
		require.False(t, ok)
	})
	bubble(t, "a returned item goes to a waiting receiver", func(t *testing.T) {
		for name, c := range map[string]*channel.LimitedChannel[int]{
			"bounded": bounded(t, 1), "limiter": open(t, channel.Options[int]{Limiter: permits(t, 1)}),
		} {
			for _, closes := range []bool{false, true} {
				ctx, cancel := context.WithCancel(t.Context())
				c.Chan(ctx)
				sends(t, c, 1)
				synctest.Wait()
				receiver := startReceive(t.Context(), c)
				if closes {
					require.NoError(t, c.Close())
				}
				receiver.waits(t)
				cancel()
				require.Equal(t, 1, receiver.ends(t, nil), name)
				require.Equal(t, closes, over(c))
			}
		}
	})
	bubble(t, "an offered item takes no capacity", func(t *testing.T) {
		l := permits(t, 9)
		c := open(t, channel.Options[int]{Limiter: l, Capacity: 1})
		sends(t, c, 1)
		second := startSend(t.Context(), c, 2)
		out := c.Chan(t.Context())
		second.ends(t, nil)
		refuses(t, c.TrySend(3), "capacity reached")
		offers(t, out, 1)
		offers(t, out, 2)
		require.NoError(t, c.Close())
		require.Equal(t, 9, l.Available())
	})
	bubble(t, "an offered item keeps its room in a bounded channel", func(t *testing.T) {
		c := bounded(t, 1)
		out := c.Chan(t.Context())
		sends(t, c, 1)
		synctest.Wait()
		refuses(t, c.TrySend(2), "permits exhausted")
		second := startSend(t.Context(), c, 2)
		second.waits(t)
		offers(t, out, 1)
		second.ends(t, nil)
		offers(t, out, 2)
		require.NoError(t, c.Close())
	})
	bubble(t, "the items of several keep their order", func(t *testing.T) {
		c := bounded(t, 9)
		sends(t, c, 1, 2, 3, 4, 5)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			c.Chan(ctx)
		}
		synctest.Wait()
		receives(t, c, 4)
		cancel()
		synctest.Wait()
		again, stop := context.WithCancel(t.Context())
		offers(t, c.Chan(again), 1)
		stop()
		synctest.Wait()
		holds(t, c, 2, 3, 5)
	})
	bubble(t, "no mode drops an offered item", func(t *testing.T) {
		for mode, left := range map[channel.Overflow][]int{channel.DropOldest: {1, 3}, channel.DropNewest: {1, 3}} {
			ctx, cancel := context.WithCancel(t.Context())
			c, dropped := dropping(t, channel.Options[int]{Limiter: refusing(t, 2), Overflow: mode})
			c.Chan(ctx)
			sends(t, c, 1)
			synctest.Wait()
			sends(t, c, 2, 3)
			require.Equal(t, []int{2}, *dropped)
			c.Chan(ctx)
			synctest.Wait()
			refuses(t, c.TrySend(4), "permits exhausted") // both are on offer
			cancel()
			synctest.Wait()
			holds(t, c, left...)
		}
	})
}

// Items that Chans return may exceed the capacity; then none is sent until as many have left.
func TestCapacityOnceChansGaveItemsBack(t *testing.T) {
	for _, mode := range []channel.Overflow{channel.Wait, channel.DropOldest, channel.DropNewest} {
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
			if mode == channel.Wait {
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
