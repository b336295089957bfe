package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name     string
		at, took []int64
		want     []int64
	}{
		{"lines at the end", []int64{5, 1, 3, 9}, []int64{1, 6, 5, 1}, []int64{1, 3, 5, 9}},
		{"without durations late ones count at the newest time", []int64{5, 1, 6}, []int64{0, 0, 0}, []int64{5, 5, 6}},
		{"later than what is out", []int64{5, 1}, []int64{0, 4}, []int64{5, 5}},
		{"equal times keep their order", []int64{1, 1, 1}, []int64{3, 2, 1}, []int64{1, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests []Request
			var got, took []int64
			for i := range test.at {
				requests = append(requests, Request{At: test.at[i], Took: test.took[i]})
			}
			for q := range InOrder(slices.Values(requests), new(Times)) {
				got, took = append(got, q.At), append(took, q.Took)
			}
			assert.Equal(t, test.want, got)
			if test.name == "equal times keep their order" {
				assert.Equal(t, test.took, took)
			}
		})
	}
}

// TestOrderIsBounded: it keeps no more than maxHeld requests, and what comes too late for that comes with the ones
// before it.
func TestOrderIsBounded(t *testing.T) {
	read := 0
	requests := func(yield func(Request) bool) {
		for read < 2*maxHeld && yield(Request{At: 100 + int64(read), Took: 1}) {
			read++
		}
		yield(Request{At: 1, Took: 1 << 20})
	}
	n := 0
	for q := range InOrder(requests, new(Times)) {
		assert.LessOrEqual(t, read, n+maxHeld+witnesses+2)
		n++
		if q.Took > 1 {
			assert.Equal(t, int64(100+maxHeld-1), q.At)
		}
	}
	assert.Equal(t, 2*maxHeld+1, n)
}

// TestOrderOfStrayTimes: a time that is far from those around it moves no other request; neither does a clock
// that is set back or stops for hours.
func TestOrderOfStrayTimes(t *testing.T) {
	const hour, year = 3600, 365 * 24 * 3600
	line := func(from, n int) (at []int64) {
		for i := range n {
			at = append(at, int64(from+i))
		}
		return at
	}
	for _, test := range []struct {
		name     string
		at, want []int64 // seconds
		times    Times
	}{
		{"ahead", slices.Concat(line(0, 9), line(year, 1), line(10, 9)), slices.Concat(line(0, 9), line(8, 1), line(10, 9)), Times{Ahead: 1}},
		{"two ahead", slices.Concat(line(0, 9), line(year, 2), line(12, 9)), slices.Concat(line(0, 9), line(8, 1), line(8, 1), line(12, 9)), Times{Ahead: 2}},
		{"first", slices.Concat(line(year, 1), line(0, 9)), slices.Concat(line(year, 1), line(year, 9)), Times{Back: 1}},
		{"long ago", slices.Concat(line(year, 9), line(0, 1), line(year+9, 9)), slices.Concat(line(year, 9), line(year+8, 1), line(year+9, 9)), Times{Late: 1, Latest: (year + 8) * time.Second}},
		{"clock set back", slices.Concat(line(hour, 9), line(9, 9)), slices.Concat(line(hour, 9), line(hour+8, 9)), Times{Back: 1}},
		{"a quiet night", slices.Concat(line(0, 9), line(9*hour, 9)), slices.Concat(line(0, 9), line(9*hour, 9)), Times{}},
		{
			"one request an hour",
			[]int64{0, hour, 2 * hour, 3 * hour, 4 * hour, year, 5 * hour, 6 * hour, 7 * hour, 8 * hour},
			[]int64{0, hour, 2 * hour, 3 * hour, 4 * hour, 4 * hour, 5 * hour, 6 * hour, 7 * hour, 8 * hour},
			Times{Ahead: 1},
		},
		{"two lines", []int64{hour, 0}, []int64{hour, hour}, Times{Late: 1, Latest: time.Hour}},
		{"one line", []int64{5}, []int64{5}, Times{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []int64
			var times Times
			requests := func(yield func(Request) bool) {
				for _, at := range test.at {
					if !yield(Request{At: at * int64(time.Second)}) {
						return
					}
				}
			}
			for q := range InOrder(requests, &times) {
				got = append(got, q.At/int64(time.Second))
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.times, times)
		})
	}
}

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
