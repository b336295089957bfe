package engine

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
)

// Windows of the calendar decide as core's do, over days, weeks and months.
func TestCalendarsDecideAsCores(t *testing.T) {
	for i, test := range []struct {
		limit string
		mean  time.Duration
	}{
		{"fixed 20/day tz Europe/Berlin", 30 * time.Minute},
		{"fixed 20/day tz Asia/Kathmandu queue 10", 30 * time.Minute},
		{"fixed 21/day tz UTC queue 30 newest-first", 40 * time.Minute},
		{"fixed 25/week from sunday tz America/New_York queue 40", 3 * time.Hour},
		{"fixed 30/month day 31 tz Europe/Berlin queue 45", 8 * time.Hour},
		{"fixed 40/year queue 10", 5 * 24 * time.Hour},
	} {
		t.Run(test.limit, func(t *testing.T) {
			l := limitOf(t, test.limit)
			r := rand.New(rand.NewPCG(uint64(i), 3))
			requests := traffic(r, 300, test.mean)
			for k := range requests {
				if r.IntN(3) == 0 {
					requests[k].Cost = r.IntN(5) // settled
				}
			}
			decidesAlike(t, l, 1+i%3, 0, requests)
			decidesAlike(t, l, 1, 24*time.Hour, requests)
		})
	}
}

// The log's times say which window it is, and each half and double of the limit has its own.
func TestACalendarByTheLogsTimes(t *testing.T) {
	l := limitOf(t, "fixed 2/day tz America/Los_Angeles")
	for factor, want := range map[float64][]bool{
		0.5: {true, false, false, true},
		1:   {true, true, false, true},
		2:   {true, true, true, true},
	} {
		p, err := Single(l, "")
		require.NoError(t, err)
		var d decisions
		pl := NewPlayer(&d, factor)
		pl.Zero = time.Date(2026, time.June, 2, 6, 59, 57, 0, time.UTC).UnixNano() // three seconds before midnight
		for i := range want {
			pl.Play(&Request{At: int64(i) * int64(time.Second), Cost: -1, Steps: p.Request(&accesslog.Record{}).Steps})
		}
		pl.Finish()
		for i, made := range d.made {
			assert.Equal(t, want[i], made.granted, "%v: %d", factor, i)
		}
	}
}
