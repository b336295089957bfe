package channel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
)

// SendBatch sends each item as Send does: none is sent after ctx has ended.
func TestSendBatchStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := open(t, channel.Options[int]{
		Limiter: permits(t, 1000),
		Permits: func(v int) int {
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
