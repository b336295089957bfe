package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/spec"
)

func TestQuantiles(t *testing.T) {
	var few, many Quantiles
	for i := range 1000 {
		few.add(int64(i+1) * int64(time.Millisecond))
	}
	assert.Equal(t, []time.Duration{500 * time.Millisecond, 990 * time.Millisecond, time.Second},
		[]time.Duration{few.At(0.5), few.At(0.99), few.At(1)})
	for i := range mostExact + 1000 {
		many.add(int64(i) * 1000)
	}
	for _, share := range []float64{0.1, 0.5, 0.99} {
		exact := share * float64(mostExact+1000) * 1000
		assert.InEpsilon(t, exact, float64(many.At(share)), 0.001)
	}
	var none Quantiles
	assert.Zero(t, none.At(0.5))
}

func TestSeriesJoinsBins(t *testing.T) {
	s := NewSeries(time.Second)
	for i := range int64(10_000) {
		s.at(i*int64(time.Second)).Arrivals++
		s.queue(i*int64(time.Second), +1)
	}
	sum := 0
	for _, b := range s.Bins {
		sum += b.Arrivals
	}
	assert.Equal(t, 10_000, sum)
	assert.LessOrEqual(t, len(s.Bins), mostBins)
	assert.Equal(t, 10_000, s.Bins[len(s.Bins)-1].Queue)
}

// TestSeriesHasTheLeastPermitsLeft: of the bins that become one, those without a number do not count.
func TestSeriesHasTheLeastPermitsLeft(t *testing.T) {
	s := NewSeries(time.Second)
	s.Leave(0, 5)
	s.Leave(1, 7)
	s.Leave(2*int64(time.Second), 9)
	s.Leave(5*int64(time.Second), 0)
	left := func() (all []int) {
		for _, b := range s.Bins {
			all = append(all, b.Left)
		}
		return all
	}
	assert.Equal(t, []int{5, -1, 9, -1, -1, 0}, left())
	s.double()
	assert.Equal(t, []int{5, 9, 0}, left())
	s.double()
	assert.Equal(t, []int{5, 0}, left())
}

// TestAvailableChangesNoDecision: who looks at the permits that are left sees them, and changes nothing.
func TestAvailableChangesNoDecision(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		text := randomLimit(r)
		requests := traffic(r, 200, time.Duration(100+r.IntN(10_000))*time.Microsecond)
		play := func(look bool) []decision {
			p, err := Single(limitOf(t, text), "")
			require.NoError(t, err)
			var d decisions
			pl := NewPlayer(&d, 1)
			for i, q := range requests {
				q.Steps = p.Request(&accesslog.Record{}).Steps
				if look && i > 0 {
					assert.GreaterOrEqual(t, pl.AvailableAt((requests[i-1].At+q.At)/2, &q.Steps[0]), 0)
				}
				pl.Play(&q)
			}
			pl.Finish()
			return d.made
		}
		assert.Equal(t, play(false), play(true), text)
	}
}

func limitOf(t *testing.T, text string) spec.Limit {
	t.Helper()
	l, err := spec.Parse(text)
	require.NoError(t, err)
	return l
}
