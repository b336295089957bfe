package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// spreadTimes spreads requests of given times; those below 0 are not coarse.
func spreadTimes(times ...time.Duration) (spreadTo []time.Duration, moved int) {
	requests := make([]Request, 0, len(times))
	for _, at := range times {
		requests = append(requests, Request{At: int64(max(at, -at)), Coarse: at >= 0})
	}
	for q := range Spread(slices.Values(requests), &moved) {
		spreadTo = append(spreadTo, time.Duration(q.At))
	}
	return spreadTo, moved
}

// TestSpread spreads the coarse requests of a second evenly over it, among those of other logs.
func TestSpread(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		times, want []time.Duration
		moved       int
	}{
		{nil, nil, 0},
		{[]time.Duration{s}, []time.Duration{s}, 0},
		{[]time.Duration{s, s, s, s}, []time.Duration{s, 1250 * ms, 1500 * ms, 1750 * ms}, 3},
		{[]time.Duration{s, s, 2 * s, 4 * s, 4 * s}, []time.Duration{s, 1500 * ms, 2 * s, 4 * s, 4500 * ms}, 2},
		{[]time.Duration{s, s, -1100 * ms, -1900 * ms}, []time.Duration{s, 1100 * ms, 1500 * ms, 1900 * ms}, 1},
		{[]time.Duration{-s, -s}, []time.Duration{s, s}, 0},
	} {
		got, moved := spreadTimes(test.times...)
		assert.Equal(t, test.want, got)
		assert.Equal(t, test.moved, moved)
	}
}
