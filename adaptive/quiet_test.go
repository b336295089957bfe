package adaptive_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

// A quiet try grants as TryAcquire does, and a rejection leaves no trace.
func TestTryQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConcurrency(t, adaptive.Options{Min: 1, Max: 2, Initial: 2, Algorithm: adaptive.AIMD{}})
		lease, ok := core.TryQuietly(l, 2)
		require.True(t, ok)
		require.Equal(t, 2, lease.Permits())
		for _, n := range []int{-1, 0, 1, 3} {
			_, ok = core.TryQuietly(l, n)
			require.False(t, ok, n)
		}
		require.Equal(t, core.Statistics{Limit: 2, Granted: 1}, l.Statistics())
		l.Drop(lease)
		require.Equal(t, 1, l.Limit(), "the limiter learns from the lease")

		s, g := shedAt(t, adaptive.ShedOptions{})
		lease, ok = core.TryQuietly(s, 3)
		require.True(t, ok)
		require.Equal(t, 3, lease.Permits())
		_, ok = core.TryQuietly(s, -1)
		require.False(t, ok)
		require.Equal(t, 1, g.count())
		g.set(1)
		time.Sleep(100 * time.Millisecond)
		_, ok = core.TryQuietly(s, 1)
		require.False(t, ok)
		require.Equal(t, 2, g.count(), "a quiet try reads the sensor if the reading is stale")
		_, ok = core.TryQuietly(s, 0)
		require.False(t, ok)
		require.EqualValues(t, 1, s.Statistics().Granted)
		require.Zero(t, s.Statistics().Rejected)
		require.NoError(t, s.Close())
		_, ok = core.TryQuietly(s, 1)
		require.False(t, ok)

		_, ok = core.TryQuietly(new(adaptive.Shed), 1)
		require.False(t, ok)
		_, ok = core.TryQuietly(new(adaptive.Concurrency), 1)
		require.False(t, ok)
	})
}

// A caller that would wait tries quietly first. That rejection is not counted.
func ExampleConcurrency_TryQuietly() {
	l := core.Must(adaptive.New(adaptive.Options{Min: 1, Max: 1, Initial: 1}))
	defer l.Close()
	first, _ := l.TryQuietly(1)
	defer first.Release()
	_, ok := l.TryQuietly(1)
	fmt.Println(ok, l.Statistics().Rejected)
	// Output: false 0
}

// A rejection that no caller sees is not counted.
func ExampleShed_TryQuietly() {
	busy := func() float64 { return 0.95 }
	shed := core.Must(adaptive.NewShed(adaptive.ShedOptions{Probe: busy, Threshold: 0.9}))
	defer shed.Close()
	_, ok := shed.TryQuietly(1)
	fmt.Println(ok, shed.Statistics().Rejected)
	// Output: false 0
}
