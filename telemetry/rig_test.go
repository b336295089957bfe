package telemetry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry"
)

// useAll makes a series of each metric.
func useAll(t *testing.T, o telemetry.Options) {
	t.Helper()
	l := concurrency(t, 1, 1)
	i, stop, err := telemetry.Instrument(o, "api", l)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	wait(t, i)
	i.TryAcquire(2)
	i.TryAcquire(1).Refund()

	k := core.Must(partition.New(partition.Options[string, string]{
		Key: func(r string) string { return r },
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(1, 1)) },
	}))
	stopped := core.Must(telemetry.Partitions(o, "clients", k))
	t.Cleanup(func() { require.NoError(t, stopped()) })

	h := core.Must(telemetry.HTTP(o))
	observeHTTP(h)
	tell := core.Must(telemetry.Resilience(o))
	tell(t.Context(), &resilience.RejectedError{Strategy: "orders"})
}

// wait has an Acquire wait a second for the one permit of i.
func wait(t *testing.T, i core.Limiter) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first := i.TryAcquire(1)
		go func() {
			time.Sleep(time.Second)
			first.Release()
		}()
		lease := core.Must(i.Acquire(t.Context(), 1))
		time.Sleep(2 * time.Second)
		lease.Release()
	})
}
