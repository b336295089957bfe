package channel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestAllocatesNothingPerItem(t *testing.T) {
	chain, err := core.Chain(permits(t, 64), core.Unlimited())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, c := range map[string]*channel.LimitedChannel[int]{
		"bounded":  bounded(t, 64),
		"limiter":  open(t, channel.Options[int]{Limiter: permits(t, 64)}),
		"weighted": open(t, channel.Options[int]{Limiter: permits(t, 64), Cost: itself, Capacity: 64}),
		"chain":    open(t, channel.Options[int]{Limiter: chain}),
		"shadow":   open(t, channel.Options[int]{Limiter: core.Shadow(permits(t, 64))}),
		"reason":   open(t, channel.Options[int]{Limiter: core.WithReason(permits(t, 64), "busy")}),
	} {
		t.Run(name, func(t *testing.T) {
			dst := make([]int, 8)
			none(t, "TrySend, TryReceive", func() { _ = c.TrySend(1); c.TryReceive() })
			none(t, "Send, Receive", func() { _ = c.Send(ctx, 1); _, _ = c.Receive(ctx) })
			none(t, "a ring full", func() {
				for range 64 {
					_ = c.Send(ctx, 1)
				}
				for range 64 {
					_, _ = c.Receive(ctx)
				}
			})
			none(t, "ReceiveBatch", func() { _ = c.Send(ctx, 1); _ = c.Send(ctx, 1); _, _ = c.ReceiveBatch(ctx, dst) })
			if name != "bounded" { // which allocates the lease
				none(t, "ReceiveLease", func() {
					_ = c.Send(ctx, 1)
					_, lease, _ := c.ReceiveLease(ctx)
					lease.Release()
				})
			}
			require.Zero(t, c.Len())
		})
	}
}

// none requires that f allocates nothing.
func none(t *testing.T, what string, f func()) {
	t.Helper()
	f()
	if n := testing.AllocsPerRun(200, f); n > 0 && !testkit.Race {
		t.Errorf("%s: %v allocations", what, n)
	}
}
