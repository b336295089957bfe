package resilience_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/resilience"
)

func TestGrantsAllocateNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("allocations can't be counted under the race detector")
	}
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	value := func(context.Context) (int, error) { return 1, nil }
	for name, s := range map[string]*resilience.Strategy{
		"own":   core.Must(resilience.Concurrency(1, 0)),
		"limit": core.Must(resilience.Limit(l)),
	} {
		ctx := t.Context()
		assert.Zero(t, testing.AllocsPerRun(100, func() { _ = s.Do(ctx, nothing) }), name)
		assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = resilience.Execute(ctx, s, value) }), name)
	}
}
