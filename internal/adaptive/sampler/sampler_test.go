package sampler

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const ms = time.Millisecond

// adds has the sampler see n leases that were granted at an instant, and wants a window to be complete after
// the last of them, or none.
func adds(t *testing.T, s *Sampler, n, inFlight int, granted time.Duration, complete bool) {
	t.Helper()
	for i := range n {
		if s.Add(inFlight, granted, ms) != (complete && i == n-1) {
			t.Fatalf("sample %d of %d: a window is complete, or none is", i+1, n)
		}
	}
}

func TestWindowsAreAsLongAsManyAreInFlight(t *testing.T) {
	var s Sampler
	adds(t, &s, 5, 1, 0, false) // a server that fills
	adds(t, &s, 20, 1, 0, true)
	assert.Equal(t, Sample{N: 20, Mean: ms, InFlight: 1}, s.Take(0))
	adds(t, &s, 50, 50, 0, true)
	assert.Equal(t, Sample{N: 50, Mean: ms, InFlight: 50}, s.Take(0))
	adds(t, &s, 3, 50, 0, false)
	assert.Equal(t, Sample{N: 3, Dropped: 2, Mean: ms, InFlight: 50}, s.Take(2))
	assert.Equal(t, Sample{Dropped: 1}, s.Take(1))
}

func TestStdErr(t *testing.T) {
	s := Sampler{settled: true}
	for range 8 {
		s.Add(1, 0, 10*ms)
		s.Add(3, 0, 30*ms)
	}
	assert.Equal(t, Sample{N: 16, Mean: 20 * ms, StdErr: 2500 * time.Microsecond, InFlight: 2}, s.Take(0))
}

func TestALargeChangeIsSettledFirst(t *testing.T) {
	var s Sampler
	adds(t, &s, 50, 10, 0, false)
	assert.Equal(t, 12, s.Move(10, 1, 100, 12, 0, Sample{InFlight: 10}, time.Second))
	adds(t, &s, 20, 12, 0, true)
	s.Take(0)
	assert.Equal(t, 20, s.Move(12, 1, 100, 20, 0, Sample{InFlight: 12}, time.Second))
	adds(t, &s, 12, 20, time.Second-1, false) // old
	adds(t, &s, 88, 20, time.Second, false)   // five times as many as are in flight
	adds(t, &s, 10, 20, time.Second-1, false) // old, and so never counted
	adds(t, &s, 20, 20, time.Second, true)
}

func TestOldLeasesAreWaitedForSoLong(t *testing.T) {
	var s Sampler
	s.Move(10, 1, 100, 5, 0, Sample{InFlight: 10}, time.Second)
	for range 25 { // one in four is old
		adds(t, &s, 1, 5, time.Second-1, false)
		adds(t, &s, 3, 5, time.Second, false)
	}
	adds(t, &s, 20, 5, time.Second, true)
}

// After a large change the clock goes back, to a synctest bubble where it is earlier.
func TestLeasesOfAfterTheClockWentBack(t *testing.T) {
	var s Sampler
	s.Move(10, 1, 100, 5, 0, Sample{InFlight: 10}, time.Hour)
	adds(t, &s, 5, 1, 0, false) // the first of these says that the clock went back
	adds(t, &s, 1, 1, ms, false)
	adds(t, &s, 20, 1, ms, true)
}

func TestMove(t *testing.T) {
	for name, c := range map[string]struct {
		limit, least, most int
		inFlight           float64
		dropped            int
		want               float64
		next               int
	}{
		"kept":                        {limit: 5, least: 1, most: 9, inFlight: 5, want: math.NaN(), next: 5},
		"rounded down":                {limit: 5, least: 1, most: 9, inFlight: 5, want: 6.99, next: 6},
		"too much":                    {limit: 5, least: 1, most: 9, inFlight: 5, want: math.Inf(1), next: 9},
		"too little":                  {limit: 5, least: 2, most: 9, inFlight: 5, want: math.Inf(-1), next: 2},
		"half of an odd limit":        {limit: 5, least: 1, most: 9, inFlight: 2.5, want: 9, next: 9},
		"less than half":              {limit: 5, least: 1, most: 9, inFlight: 2.4, want: 9, next: 5},
		"nothing":                     {limit: 5, least: 1, most: 9, want: 9, next: 5},
		"dropped":                     {limit: 5, least: 1, most: 9, inFlight: 5, dropped: 1, want: 9, next: 4},
		"dropped, and less":           {limit: 5, least: 1, most: 9, inFlight: 5, dropped: 1, want: 2, next: 2},
		"dropped three":               {limit: 5, least: 1, most: 9, inFlight: 5, dropped: 3, want: 9, next: 2},
		"dropped at the least":        {limit: 5, least: 5, most: 9, inFlight: 5, dropped: 1, want: 2, next: 5},
		"dropped very many":           {limit: 5, least: 1, most: 9, dropped: math.MaxInt, want: 2, next: 1},
		"the most there is":           {limit: math.MaxInt, least: 1, most: math.MaxInt, inFlight: math.MaxInt, want: math.MaxInt, next: math.MaxInt},
		"more in flight than allowed": {limit: 1, least: 1, most: math.MaxInt, inFlight: math.MaxInt, want: 1 << 30, next: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			var s Sampler
			w := Sample{InFlight: c.inFlight, Dropped: c.dropped}
			assert.Equal(t, c.next, s.Move(c.limit, c.least, c.most, c.want, 0, w, 0))
		})
	}
}

// A trial of half of the largest limit ends at that limit.
func TestMoveRestoresTheLargestLimit(t *testing.T) {
	var s Sampler
	half := math.MaxInt / 2
	assert.Equal(t, math.MaxInt, s.Move(half, 1, math.MaxInt, math.MaxInt, math.MaxInt, Sample{InFlight: 1}, 0))
}

func FuzzMove(f *testing.F) {
	f.Add(5, 1, 9, 5.0, 1, 3.5)
	f.Fuzz(func(t *testing.T, limit, least, most int, inFlight float64, dropped int, want float64) {
		if least < 1 || most < least || limit < least || limit > most || !(inFlight >= 0) || dropped < 0 {
			t.Skip()
		}
		var s Sampler
		next := s.Move(limit, least, most, want, 0, Sample{InFlight: inFlight, Dropped: dropped}, 0)
		switch {
		case next < least || next > most:
			t.Fatalf("%d is not within %d and %d", next, least, most)
		case dropped > 0 && next > max(limit-dropped, least):
			t.Fatalf("from %d to %d after %d drops", limit, next, dropped)
		case dropped == 0 && inFlight < float64(limit)/2 && next > limit:
			t.Fatalf("from %d to %d with %v in flight", limit, next, inFlight)
		case math.IsNaN(want) && dropped == 0 && next != limit:
			t.Fatalf("from %d to %d for NaN", limit, next)
		}
	})
}
