//go:build unix

package redislimit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// A sliding window of 1,000 segments, with permits taken in each of them, costs about as much as one of 10: the state has a
// running total.
func TestTheCostOfSegments(t *testing.T) {
	onReal(t, func(t *testing.T, _ *realserver.Server, store redislimit.Store) {
		const window = 2 * time.Second
		build := func(key string, segments int) *redislimit.SlidingWindow {
			o := redislimit.StoreOptions{Store: store, Key: key, Timeout: patient, Prefetch: 1}
			return sliding(t, o, core.SlidingWindowOptions{PermitLimit: 1 << 30, Window: window, SegmentsPerWindow: segments})
		}
		few, many := build("few", 10), build("many", 1000)
		var times [2][]time.Duration
		for start := time.Now(); time.Since(start) < 2*window; {
			for i, l := range []core.Limiter{few, many} {
				start := time.Now()
				takes(t, l, 1)
				times[i] = append(times[i], time.Since(start))
			}
		}
		median := func(d []time.Duration) time.Duration {
			d = d[len(d)/2:] // when the windows are full
			slices.Sort(d)
			return d[len(d)/2]
		}
		t.Logf("a take with 10 segments: %v, with 1,000: %v", median(times[0]), median(times[1]))
		require.Less(t, median(times[1]), 3*median(times[0]), "the goal is 1.5, on a quiet machine")
	})
}
