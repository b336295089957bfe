package core_test

import (
	"encoding"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

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
