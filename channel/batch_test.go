package channel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// numbers returns the numbers from 1 to n.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func TestSendBatch(t *testing.T) {
	kinds := func(t *testing.T, room int) map[string]*channel.LimitedChannel[int] {
		t.Helper()
		of := func(o channel.Options[int]) *channel.LimitedChannel[int] { return open(t, o) }
		return map[string]*channel.LimitedChannel[int]{
			"bounded":  bounded(t, room),
			"counted":  of(channel.Options[int]{Limiter: permits(t, room)}),
			"weighed":  of(channel.Options[int]{Limiter: permits(t, 2*room), Cost: func(int) int { return 2 }}),
			"capacity": of(channel.Options[int]{Limiter: permits(t, 1000), Capacity: room}),
			"wrapped":  of(channel.Options[int]{Limiter: wrapped{permits(t, room)}}),
		}
	}
	bubble(t, "waits for each", func(t *testing.T) {
		for name, c := range kinds(t, 3) {
			batch := start(func() (int, error) { return c.SendBatch(t.Context(), numbers(40)) })
			for i := range 37 {
				batch.waits(t)
				require.Equal(t, 3, c.Len(), name)
				receives(t, c, i+1)
			}
			require.Equal(t, 40, batch.ends(t, nil))
			holds(t, c, 38, 39, 40)
		}
	})
	bubble(t, "to receivers that wait", func(t *testing.T) {
		for _, c := range kinds(t, 3) {
			first, second := startReceive(t.Context(), c), startReceive(t.Context(), c)
			n, err := c.SendBatch(t.Context(), numbers(4))
			require.NoError(t, err)
			require.Equal(t, 4, n)
			require.Equal(t, 1, first.ends(t, nil))
			require.Equal(t, 2, second.ends(t, nil))
			holds(t, c, 3, 4)
		}
	})
	bubble(t, "how many were sent before the end", func(t *testing.T) {
		for _, c := range kinds(t, 5) {
			ctx, cancel := context.WithCancel(t.Context())
			batch := start(func() (int, error) { return c.SendBatch(ctx, numbers(9)) })
			batch.waits(t)
			cancel()
			require.Equal(t, 5, batch.ends(t, context.Canceled))
			holds(t, c, 1, 2, 3, 4, 5)
			n, err := c.SendBatch(ctx, numbers(2))
			require.Equal(t, context.Canceled, err)
			require.Zero(t, n)

			batch = start(func() (int, error) { return c.SendBatch(t.Context(), numbers(9)) })
			require.NoError(t, c.Close())
			require.Equal(t, 5, batch.ends(t, channel.ErrClosed))
			n, err = c.SendBatch(t.Context(), numbers(2))
			require.Equal(t, channel.ErrClosed, err)
			require.Zero(t, n)
			holds(t, c, 1, 2, 3, 4, 5)
		}
	})
	bubble(t, "each item costs its own", func(t *testing.T) {
		l := refusing(t, 9)
		c := open(t, channel.Options[int]{Limiter: l, Cost: itself})
		n, err := c.SendBatch(t.Context(), []int{1, 0, 2, 10, 3})
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
		require.Equal(t, 3, n)
		n, err = c.SendBatch(t.Context(), []int{4, -1, 3})
		require.ErrorIs(t, err, core.ErrNegativePermits)
		require.Equal(t, 1, n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		n, err = c.SendBatch(ctx, []int{2, 1})
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 1, n)
		require.Zero(t, l.Available())
		require.Equal(t, uint64(5), l.Statistics().Granted)
		holds(t, c, 1, 0, 2, 4, 2)
		require.Equal(t, 9, l.Available())
	})
}

// SendBatch sends each item as Send does: none is sent after ctx has ended.
func TestSendBatchStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := open(t, channel.Options[int]{
		Limiter: permits(t, 1000),
		Cost: func(v int) int {
			if v == 20 {
				cancel()
			}
			return 1
		},
	})
	sent, err := c.SendBatch(ctx, make([]int, 20))
	require.NoError(t, err)
	require.Equal(t, 20, sent)

	items := make([]int, 500)
	items[0] = 20 // its cost is asked for first, and ends ctx
	sent, err = c.SendBatch(ctx, items)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, sent)
}

// reasonOf returns the reason of a refusal by that one of limiters.
func reasonOf(name string) string {
	if name == "reason" {
		return "busy"
	}
	return "permits exhausted"
}

func TestString(t *testing.T) {
	c := bounded(t, 3)
	sends(t, c, 1)
	require.Equal(t, "limited channel: 1 of 3 queued", c.String())
	require.NoError(t, c.Close())
	require.Equal(t, "limited channel: 1 of 3 queued, closed", c.String())
	require.Equal(t, "limited channel: 0 queued", open(t, channel.Options[int]{Limiter: permits(t, 3)}).String())
	require.Equal(t, "limited channel: 0 queued, closed", new(channel.LimitedChannel[int]).String())
}
