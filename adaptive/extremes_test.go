package adaptive_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/adaptive/simulation"
)

// The largest limit that there is stays, as nothing speaks against it; and it is found in
// no other way when there is a load.
func TestTheLargestLimit(t *testing.T) {
	for name, a := range map[string]adaptive.Algorithm{"gradient": adaptive.Gradient{}, "aimd": adaptive.AIMD{}} {
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
