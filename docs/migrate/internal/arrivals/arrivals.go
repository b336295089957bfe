// Package arrivals sends the same requests to two limiters and compares their decisions.
package arrivals

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Random returns n intervals between requests, exponentially distributed with the given mean. They are
// the same in every run.
func Random(n int, mean time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	gaps := make([]time.Duration, n)
	for i := range gaps {
		gaps[i] = time.Duration(random.ExpFloat64() * float64(mean))
	}
	return gaps
}

// Compare calls before and after at the same times, separated by gaps. It fails the test at the first
// request that one grants and the other rejects. It returns the number of granted requests, and fails if
// all or none were granted, because then nothing was compared. Call it in a synctest bubble.
func Compare(t *testing.T, gaps []time.Duration, before, after func() bool) (granted int) {
	t.Helper()
	start := time.Now()
	for i, gap := range gaps {
		<-time.NewTimer(gap).C
		was, is := before(), after()
		require.Equal(t, was, is, "request %d, after %v", i, time.Since(start))
		if is {
			granted++
		}
	}
	require.NotZero(t, granted)
	require.Less(t, granted, len(gaps))
	return granted
}

// Granted returns how many of n consecutive requests are granted.
func Granted(n int, try func() bool) (granted int) {
	for range n {
		if try() {
			granted++
		}
	}
	return granted
}
