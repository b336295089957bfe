package worker_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// Who reads the limiter's statistics takes a rejection for a task that was turned away. The
// pool turns none away, so it causes none, whatever kind of limiter it asks.
func TestQueuedTasksAreNoRejections(t *testing.T) {
	for name, wrap := range map[string]func(*core.ConcurrencyLimiter) core.Limiter{
		"core's own": func(l *core.ConcurrencyLimiter) core.Limiter { return l },
		"reason":     func(l *core.ConcurrencyLimiter) core.Limiter { return core.WithReason(l, "busy") },
		"a user's":   func(l *core.ConcurrencyLimiter) core.Limiter { return &odd{ConcurrencyLimiter: l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 2)
				p := newPool(t, worker.Options{Limiter: wrap(l), Queue: 50})
				g := newGate()
				submits(t, p, two(g.task)...)
				for range 50 {
					submits(t, p, nothing)
				}
				counts(t, p, worker.Statistics{Running: 2, Queued: 50})
				g.open()
				require.NoError(t, p.Wait(t.Context()))
				s := l.Statistics()
				require.Zero(t, s.Rejected)
				require.EqualValues(t, 52, s.Granted, "a lease for each task")
				drained(t, p, l)
			})
		})
	}
}
