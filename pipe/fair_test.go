package pipe_test

import (
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
)

// shares has pipes whose writers write as much as they can in pieces of these sizes for some
// seconds, and returns the part of each.
func shares(t *testing.T, options pipe.Options, sizes ...int) []float64 {
	t.Helper()
	counts := make([]float64, len(sizes))
	var readers []*pipe.Reader
	ended := make(chan struct{})
	for i, size := range sizes {
		r, w := newPipe(t, options)
		readers = append(readers, r)
		go func() {
			n, _ := io.Copy(io.Discard, r)
			counts[i] = float64(n)
			ended <- struct{}{}
		}()
		go func() {
			for buf := make([]byte, size); ; {
				if _, err := w.Write(buf); err != nil {
					ended <- struct{}{}
					return
				}
			}
		}()
	}
	time.Sleep(5 * time.Second)
	for _, r := range readers {
		require.NoError(t, r.Close())
	}
	total := 0.0
	for range sizes {
		<-ended
		<-ended
	}
	for _, n := range counts {
		total += n
	}
	for i := range counts {
		counts[i] /= total
	}
	return counts
}

// The meter shares a rate among streams; the tests of ioreader ask it for more kinds of limiters and of sizes.
func TestWritersOfAllSizesGetEqualShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rate := core.Must(core.NewTokenBucket(core.PerSecond(100_000, 1000)))
		sizes := []int{10, 10, 100, 100_000, 100_000}
		for i, part := range shares(t, pipe.Options{WriteLimiter: rate}, sizes...) {
			assert.InEpsilon(t, 0.2, part, 0.1, "pieces of %d", sizes[i])
		}
		for _, part := range shares(t, pipe.Options{ReadLimiter: rate}, 10, 1000, 100_000) {
			assert.InEpsilon(t, 1.0/3, part, 0.1)
		}
	})
}

func TestOneLimiterOnBothSides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := concurrency(t, 10, 100)
		chain := core.Must(core.Chain(held, core.Unlimited()))
		keyed, err := partition.New(partition.Options[string, string]{
			Key: func(s string) string { return s },
			New: func(string) (core.Limiter, error) { return held, nil },
		})
		require.NoError(t, err)
		rate := func() core.Limiter { return bucket(t, 100) }
		with := func(l core.Limiter) core.Limiter { return core.Must(core.Chain(rate(), l, concurrency(t, 3, 0))) }
		for _, l := range [][2]core.Limiter{
			{held, held},
			{chain, chain},
			{held, core.WithReason(held, "full")},
			{core.Shadow(held), held},
			{core.WithReason(held, "full"), with(held)},
			{with(held), held},
			{with(held), with(core.WithReason(held, "full"))},
			{held, partition.For(keyed, "a")},
			{partition.For(keyed, "a"), partition.For(keyed, "a")},
			{partition.For(keyed, "a"), with(partition.For(keyed, "a"))},
		} {
			r, w := newPipe(t, pipe.Options{WriteLimiter: l[0], ReadLimiter: l[1]})
			go func() {
				writes(t, w, "0123456789abcdefghij")
				assert.NoError(t, w.Close())
			}()
			all, err := io.ReadAll(r)
			assert.NoError(t, err)
			assert.Equal(t, "0123456789abcdefghij", string(all))
			available(t, held, 10)
		}
		twice := bucket(t, 100)
		r, w := newPipe(t, pipe.Options{WriteLimiter: twice, ReadLimiter: twice})
		writes(t, w, "abcd")
		reads(t, r, 9, "abcd")
		available(t, twice, 92)
	})
}

// TestAStuckPipeDoesNotStopOthers has a byte of one pipe that is not read: the first Write into another pipe of
// the same key needs less than the whole budget.
func TestAStuckPipeDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	for name := range budgets(t, concurrency(t, 100, math.MaxInt)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiter := budgets(t, concurrency(t, 100, math.MaxInt))[name]()
				stuck, w := newPipe(t, pipe.Options{WriteLimiter: limiter})
				writes(t, w, "x")
				r, w := newPipe(t, pipe.Options{WriteLimiter: limiter})
				go func() {
					writes(t, w, string(make([]byte, 1000)))
					assert.NoError(t, w.Close())
				}()
				all, err := io.ReadAll(r)
				assert.NoError(t, err)
				assert.Len(t, all, 1000)
				assert.NoError(t, stuck.Close())
			})
		})
	}
}
