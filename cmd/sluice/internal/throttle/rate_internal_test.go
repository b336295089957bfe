package throttle

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/spec"
)

// SIGUSR2 halves a rate that has no whole half, too, and SIGUSR1 takes it back, however many come.
func TestHalvedAndDoubled(t *testing.T) {
	for _, text := range []string{"1/s", "5/s", "1000/1m", "3/1s burst 8", "fixed 5/1m", "sliding 7/1m segments 6"} {
		t.Run(text, func(t *testing.T) {
			first, err := spec.Parse(text)
			assert.NoError(t, err)
			l := halved(first)
			assert.InDelta(t, perSecondOf(first)/2, perSecondOf(l), 1e-12)
			assert.InDelta(t, perSecondOf(first), perSecondOf(doubled(l)), 1e-12)
			for range 1000 {
				l = halved(l)
			}
			_, err = l.New("")
			assert.NoError(t, err)
			for range 1000 {
				l = doubled(l)
			}
			_, err = l.New("")
			assert.NoError(t, err)
		})
	}
}

func perSecondOf(l spec.Limit) float64 { return float64(l.Permits) / l.Per.Seconds() }
