package adaptive_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/adaptive"
)

// The largest limit that there is stays, because nothing speaks against it.
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
}
