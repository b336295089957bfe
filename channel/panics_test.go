package channel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
)

// faulty is a context of somebody's own whose Done panics.
type faulty struct{ context.Context }

func (faulty) Done() <-chan struct{} { panic("Done") }

// A context whose Done panics while a Send waits, for permits or for room, leaves nothing
// taken and nobody in line.
func TestADoneThatPanicsTakesNothing(t *testing.T) {
	slots := permits(t, 2)
	tokens := bucket(t, 3, 9)
	for name, c := range map[string]*channel.LimitedChannel[int]{
		"bounded":   bounded(t, 1),
		"permits":   open(t, channel.Options[int]{Limiter: permits(t, 1)}),
		"room":      open(t, channel.Options[int]{Limiter: slots, Capacity: 1}),
		"tokens":    open(t, channel.Options[int]{Limiter: tokens, Capacity: 1}),
		"foreign":   open(t, channel.Options[int]{Limiter: wrapped{permits(t, 1)}}),
		"in a drop": open(t, channel.Options[int]{Limiter: permits(t, 1), Overflow: channel.DropOldest}),
	} {
		t.Run(name, func(t *testing.T) {
			sends(t, c, 1)
			require.Panics(t, func() { _ = c.Send(faulty{t.Context()}, 2) })
			if name != "in a drop" {
				require.Panics(t, func() { _, _ = c.SendBatch(faulty{t.Context()}, []int{3, 4}) })
			}
			require.Equal(t, 1, c.Len())
			receives(t, c, 1)
			sends(t, c, 5)
			receives(t, c, 5)
			require.Panics(t, func() { _, _ = c.Receive(faulty{t.Context()}) })
			require.Panics(t, func() { _ = c.WaitToReceive(faulty{t.Context()}) })
			sends(t, c, 6)
			holds(t, c, 6)
		})
	}
	require.Equal(t, 2, slots.Available())
	require.Equal(t, core.Statistics{Limit: 3, Granted: 5}, tokens.Statistics())
}
