//go:build unix

package redislimit_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// A request to a sliding window of 1,000 segments, with permits taken in many of them, runs as many commands at the server as one
// of 10 segments, because the state has a running total. How long they take says a benchmark.
func TestTheCostOfSegments(t *testing.T) {
	t.Parallel()
	onReal(t, func(t *testing.T, s *realserver.Server, store redislimit.Store) {
		c := s.Client()
		defer c.Close()
		commands := func() (calls int) {
			info, err := c.Info(t.Context(), "commandstats").Result()
			require.NoError(t, err)
			for _, stat := range regexp.MustCompile(`cmdstat_[hz]\w+:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
				n, err := strconv.Atoi(stat[1])
				require.NoError(t, err)
				calls += n
			}
			return calls
		}
		const requests = 50
		cost := func(key string, segments int) int {
			o := redislimit.StoreOptions{Store: store, Key: key, Timeout: patient, Prefetch: 1}
			l := sliding(t, o, core.SlidingWindowOptions{PermitLimit: 1 << 30, Window: time.Hour, SegmentsPerWindow: segments, Anchor: time.Now()})
			for i := range segments { // as if a permit had been taken in each segment but the latest
				at := strconv.FormatInt(time.Now().Add(time.Duration(i+1)*time.Hour/time.Duration(segments+2)).UnixMicro(), 10)
				require.NoError(t, c.HSet(t.Context(), "{"+key+"}:limit", at, 1).Err())
				require.NoError(t, c.Do(t.Context(), "ZADD", "{"+key+"}:segments", at, at).Err())
				if i == 0 {
					require.NoError(t, c.HSet(t.Context(), "{"+key+"}:limit", "state", "sliding 0 1 1 "+strconv.Itoa(segments)+" "+at+" "+at).Err())
				}
			}
			takes(t, l, 1)
			before := commands()
			for range requests {
				takes(t, l, 1)
			}
			return commands() - before
		}
		few, many := cost("few", 10), cost("many", 1000)
		require.LessOrEqual(t, many, few+requests/2, "%d commands, and %d", few, many)
	})
}
