package adaptive_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/adaptive/simulation"
)

// The largest limit that there is stays, as nothing speaks against it; and it is found in
// no other way when there is a load.
func TestTheLargestLimit(t *testing.T) {
	for name, a := range map[string]adaptive.Algorithm{"gradient": adaptive.Gradient{}, "vegas": adaptive.Vegas{}, "aimd": adaptive.AIMD{}} {
		t.Run(name, func(t *testing.T) {
			l := newConcurrency(t, adaptive.Options{Max: math.MaxInt, Initial: math.MaxInt, Algorithm: a})
			for range 1000 {
				l.TryAcquire(1).Release()
			}
			assert.Equal(t, math.MaxInt, l.Limit())
			l.Drop(l.TryAcquire(1))
			assert.Less(t, l.Limit(), math.MaxInt)
			assert.Greater(t, l.Limit(), math.MaxInt/2)
		})
	}
	each(t, func(t *testing.T, f interface{ New() adaptive.Algorithm }, d distribution, seed uint64) {
		const c = 100
		tr := &trial{capacity: c, from: 500 * c, to: 700 * c, Config: simulation.Config{
			Min: 1, Max: math.MaxInt, Initial: math.MaxInt, Seed: seed, Service: d.of, Slots: always(c), Clients: always(4 * c),
		}}
		tr.run(f)
		tr.settled(t, 10*ms)
	})
}

// What a function of Vegas says amiss for a while is forgotten afterwards.
func TestVegasFunctionsThatAreWrongForAWhile(t *testing.T) {
	const alpha, beta, threshold = 0, 1, 2
	defaults := [...]float64{alpha: 3, beta: 6, threshold: 1}
	for which, name := range []string{"alpha", "beta", "threshold"} {
		for _, wrong := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e300, 1e300} {
			t.Run(fmt.Sprint(name, " ", wrong), func(t *testing.T) {
				const c = 100
				n := 0
				function := func(k int) func(int) float64 {
					return func(limit int) float64 {
						assert.Positive(t, limit)
						if k == which && n < 200*c {
							return wrong
						}
						return defaults[k] * math.Log10(float64(limit))
					}
				}
				v := adaptive.Vegas{Alpha: function(alpha), Beta: function(beta), Threshold: function(threshold)}
				tr := &trial{capacity: c, from: 700 * c, to: 900 * c, Config: simulation.Config{
					Initial: 20, Seed: 1, Service: distributions[0].of, Slots: always(c),
					Observe: func(time.Duration, simulation.Sample, int) { n++ },
				}}
				tr.run(v)
				tr.settled(t, 10*ms)
			})
		}
	}
}
