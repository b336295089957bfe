package core_test

import (
	"context"
	"encoding"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestFlowOf(t *testing.T) {
	_, ok := core.FlowFromContext(t.Context())
	require.False(t, ok)
	for _, c := range []struct{ of, want core.Flow }{
		{core.Flow{}, core.Flow{}},
		{core.Flow{Key: "a", Weight: 7, Priority: -3}, core.Flow{Key: "a", Weight: 7, Priority: -3}},
		{core.Flow{Weight: -4, Priority: -101}, core.Flow{Weight: 1, Priority: -100}},
		{core.Flow{Weight: 1<<20 + 1, Priority: 101}, core.Flow{Weight: 1 << 20, Priority: 100}},
	} {
		got, ok := core.FlowFromContext(core.WithFlow(t.Context(), c.of))
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
	inner := core.WithFlow(core.WithFlow(t.Context(), core.Flow{Key: "outer"}), core.Flow{Key: "inner"})
	got, _ := core.FlowFromContext(inner)
	require.Equal(t, "inner", got.Key)
}

// flowless is a context that must not be asked for a flow.
type flowless struct{ context.Context }

func (flowless) Value(any) any { panic("asked for a value") }

func TestARequestThatDoesNotWaitNeedsNoFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.ConcurrencyLimiterOptions{PermitLimit: 5, QueueLimit: 5, QueueOrder: core.FairShare}
		l, err := core.NewConcurrencyLimiter(o)
		require.NoError(t, err)
		lease, err := l.Acquire(flowless{t.Context()}, 3)
		require.NoError(t, err)
		_, err = l.Acquire(flowless{t.Context()}, 0)
		require.NoError(t, err)
		_, err = l.Acquire(flowless{t.Context()}, 6)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
		lease.Release()
		// Under another order no context is asked.
		o.QueueOrder = core.OldestFirst
		require.NoError(t, l.Update(o))
		takes(t, l, 5)
		go func() { _, _ = l.Acquire(flowless{t.Context()}, 1) }()
		synctest.Wait()
		require.Equal(t, 1, l.Statistics().Queued)
		require.NoError(t, l.Close())
	})
}

var (
	_ encoding.TextMarshaler   = core.OldestFirst
	_ encoding.TextUnmarshaler = new(core.QueueOrder)
)

func TestQueueOrderAsText(t *testing.T) {
	var zero core.QueueOrder
	require.Equal(t, core.OldestFirst, zero)
	for order, want := range map[core.QueueOrder]string{
		core.OldestFirst: "oldest-first", core.NewestFirst: "newest-first", core.FairShare: "fair-share",
	} {
		require.Equal(t, want, order.String())
		text, err := order.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got := core.QueueOrder(9)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, order, got)
	}
}

func TestBadQueueOrders(t *testing.T) {
	_, err := core.QueueOrder(3).MarshalText()
	require.Error(t, err)
	require.NotEmpty(t, core.QueueOrder(3).String())
	require.NotEqual(t, core.QueueOrder(3).String(), core.QueueOrder(4).String())
	for _, text := range []string{"", "oldest", "Oldest-First", "oldest-first ", "newest-firs", "fair", "FairShare", "0", "2"} {
		order := core.NewestFirst
		require.Error(t, order.UnmarshalText([]byte(text)), text)
		require.Equal(t, core.NewestFirst, order, "left as it was")
	}
	_, err = json.Marshal(core.QueueOrder(200))
	require.Error(t, err)
}
