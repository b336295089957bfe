package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
)

func TestQuantiles(t *testing.T) {
	var few, many Quantiles
	for i := range 1000 {
		few.add(int64(i+1) * int64(time.Millisecond))
	}
	assert.Equal(t, []time.Duration{500 * time.Millisecond, 990 * time.Millisecond, time.Second},
		[]time.Duration{few.At(0.5), few.At(0.99), few.At(1)})
	for i := range maxExact + 1000 {
		many.add(int64(i) * 1000)
	}
	for _, share := range []float64{0.1, 0.5, 0.99} {
		exact := share * float64(maxExact+1000) * 1000
		assert.InEpsilon(t, exact, float64(many.At(share)), 0.001)
	}
	var none Quantiles
	assert.Zero(t, none.At(0.5))
}

// TestSeriesIsBounded: bins are joined, two by two, however long the log is.
func TestSeriesIsBounded(t *testing.T) {
	for _, test := range []struct{ start, span, want time.Duration }{
		{time.Second, 10 * time.Minute, time.Second},
		{time.Second, 20 * time.Minute, 2 * time.Second},
		{time.Second, 24 * time.Hour, 256 * time.Second},
		{25 * time.Millisecond, 20 * time.Second, 50 * time.Millisecond},
	} {
		s, arrivals := NewSeries(test.start), 0
		for at := time.Duration(0); at < test.span; at += test.span / 5000 {
			s.arrive(int64(at))
			s.queue(int64(at), +1)
			arrivals++
		}
		assert.Equal(t, test.want, time.Duration(s.Width), "%v", test)
		assert.LessOrEqual(t, len(s.Bins), maxBins)
		assert.Equal(t, arrivals, s.Bins[len(s.Bins)-1].Queue)
		for _, b := range s.Bins {
			arrivals -= b.Arrivals
		}
		assert.Zero(t, arrivals)
	}
	s := NewSeries(time.Second)
	for _, second := range []int64{0, 1, 1, 1, 2} {
		s.arrive(second * int64(time.Second))
	}
	s.join()
	assert.Equal(t, []int{3, 1}, []int{s.Bins[0].Peak, s.Bins[1].Peak}, "the busiest second of a bin")
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
	s.join()
	assert.Equal(t, []int{5, 9, 0}, left())
	s.join()
	assert.Equal(t, []int{5, 0}, left())
}

func limitOf(t *testing.T, text string) spec.Limit {
	t.Helper()
	l, err := spec.Parse(text)
	require.NoError(t, err)
	return l
}
