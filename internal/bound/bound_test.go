package bound

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		limit, least, most, inFlight int
		dropped                      bool
		want                         float64
		next                         int
	}{
		"kept":                        {limit: 5, least: 1, most: 9, inFlight: 5, want: math.NaN(), next: 5},
		"rounded down":                {limit: 5, least: 1, most: 9, inFlight: 5, want: 6.99, next: 6},
		"too much":                    {limit: 5, least: 1, most: 9, inFlight: 5, want: math.Inf(1), next: 9},
		"too little":                  {limit: 5, least: 2, most: 9, inFlight: 5, want: math.Inf(-1), next: 2},
		"half of an odd limit":        {limit: 5, least: 1, most: 9, inFlight: 3, want: 9, next: 9},
		"less than half":              {limit: 5, least: 1, most: 9, inFlight: 2, want: 9, next: 5},
		"half":                        {limit: 4, least: 1, most: 9, inFlight: 2, want: 9, next: 9},
		"dropped":                     {limit: 5, least: 1, most: 9, inFlight: 5, dropped: true, want: 9, next: 4},
		"dropped, and less":           {limit: 5, least: 1, most: 9, inFlight: 5, dropped: true, want: 2, next: 2},
		"dropped at the least":        {limit: 5, least: 5, most: 9, inFlight: 5, dropped: true, want: 2, next: 5},
		"the most there is":           {limit: math.MaxInt, least: 1, most: math.MaxInt, inFlight: math.MaxInt, want: math.MaxInt, next: math.MaxInt},
		"more in flight than allowed": {limit: 1, least: 1, most: math.MaxInt, inFlight: math.MaxInt, want: 1 << 30, next: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.next, Next(c.limit, c.least, c.most, c.inFlight, c.dropped, c.want))
		})
	}
}

func FuzzNext(f *testing.F) {
	f.Add(5, 1, 9, 5, true, 3.5)
	f.Fuzz(func(t *testing.T, limit, least, most, inFlight int, dropped bool, want float64) {
		if least < 1 || most < least || limit < least || limit > most || inFlight < 1 {
			t.Skip()
		}
		next := Next(limit, least, most, inFlight, dropped, want)
		switch {
		case next < least || next > most:
			t.Fatalf("%d is not within %d and %d", next, least, most)
		case dropped && next >= limit && limit > least:
			t.Fatalf("from %d to %d after a drop", limit, next)
		case inFlight < limit/2 && next > limit:
			t.Fatalf("from %d to %d with %d in flight", limit, next, inFlight)
		case math.IsNaN(want) && !dropped && next != limit:
			t.Fatalf("from %d to %d for NaN", limit, next)
		}
	})
}
