package adaptive_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/adaptive/sampler"
)

// A server may do less the more it has: each request above the capacity makes all of them
// wait for so long. So the latency at a limit is no measure of how far above it is.
func TestFindsTheCapacityOfAServerThatCollapses(t *testing.T) {
	for _, each := range []time.Duration{ms / 5, ms, 10 * ms} {
		for _, c := range []int{100, 200, 500} {
			for _, initial := range []int{20, 1000} {
				t.Run(fmt.Sprintf("%v each/%d from %d", each, c, initial), func(t *testing.T) {
					a, r := adaptive.Gradient{}.New(), rand.New(rand.NewPCG(1, 2))
					limit, sum, within := initial, 0, 0
					var collect sampler.Sampler
					from, to := 500*c, 1000*c
					for i := range to {
						d := 10*ms + time.Duration(max(limit-c, 0))*each
						d = time.Duration(float64(d) * (0.7 + 0.6*r.Float64()))
						if collect.Add(limit, 0, d) {
							w := adaptive.Window(collect.Take(0))
							limit = collect.Move(limit, 1, 1000, a.Next(limit, w), sampler.Window(w), 0)
						}
						if i < from {
							continue
						}
						sum += limit
						if 10*limit >= 8*c && 10*limit <= 12*c {
							within++
						}
					}
					n := float64(to - from)
					assert.InDelta(t, 1, float64(sum)/n/float64(c), 0.2, "the mean limit, over the capacity")
					assert.Greater(t, float64(within)/n, 0.7, "share of samples with a limit within 20 %")
				})
			}
		}
	}
}
