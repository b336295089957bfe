package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
