package adaptive_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := adaptive.New(adaptive.Options{Min: 1, Initial: 1, Max: 1, QueueLimit: 9, QueueOrder: core.FairShare})
		require.NoError(t, err)
		require.Equal(t, core.FairShare, l.QueueOrder())
		lease := l.TryAcquire(1)
		var order []string
		for _, key := range []string{"a", "a", "b"} {
			go func() {
				k, err := l.Acquire(core.WithFlow(t.Context(), core.Flow{Key: key}), 1)
				if err == nil {
					order = append(order, key)
					k.Release()
				}
			}()
			synctest.Wait()
		}
		lease.Release()
		synctest.Wait()
		require.Equal(t, []string{"a", "b", "a"}, order)
	})
	s, err := adaptive.NewShed(adaptive.ShedOptions{Probe: func() float64 { return 0 }, Above: 1, QueueOrder: core.FairShare})
	require.NoError(t, err)
	require.Equal(t, core.FairShare, s.QueueOrder())
	_, err = adaptive.NewShed(adaptive.ShedOptions{Probe: func() float64 { return 0 }, Above: 1, QueueOrder: 3})
	require.ErrorContains(t, err, "fair-share")
}
