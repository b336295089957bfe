package channel_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

func TestSendBatchWhosePermitsPanicsLosesNone(t *testing.T) {
	l := permits(t, 10)
	c := open(t, channel.Options[int]{Limiter: l, Permits: func(v int) int {
		if v == 3 {
			panic("odd")
		}
		return v
	}})
	require.PanicsWithValue(t, "odd", func() { _, _ = c.SendBatch(t.Context(), []int{1, 2, 3}) })
	c.Discard()
	require.Equal(t, 10, l.Available())
}

func TestPermitsIsAskedOncePerItem(t *testing.T) {
	for name, capacity := range map[string]int{"for want of permits": 0, "for want of capacity": 3} {
		bubble(t, name, func(t *testing.T) {
			asked := map[int]int{}
			c := open(t, channel.Options[int]{Limiter: permits(t, 20), Capacity: capacity, Permits: func(v int) int {
				asked[v]++
				return 2
			}})
			batch := start(func() (int, error) { return c.SendBatch(t.Context(), numbers(40)) })
			for i := range 40 {
				v, err := c.Receive(t.Context())
				require.NoError(t, err)
				require.Equal(t, numbers(40)[i], v)
				synctest.Wait()
			}
			require.Equal(t, 40, batch.ends(t, nil))
			for v, n := range asked {
				require.Equal(t, 1, n, "item %d", v)
			}
		})
	}
}

// TestEvictionUnderALimiterThatDoesNotTellItsLimit: a Reporter whose Limit is 0 tells none.
func TestEvictionUnderALimiterThatDoesNotTellItsLimit(t *testing.T) {
	l := core.WithReason(&user{Limiter: refusing(t, 2)}, "enough")
	for _, mode := range []channel.Overflow{channel.DropOldest, channel.DropNewest} {
		c := open(t, channel.Options[int]{Limiter: l, Overflow: mode})
		sends(t, c, 1, 2, 3)
		require.Equal(t, 2, c.Discard())
	}
}
