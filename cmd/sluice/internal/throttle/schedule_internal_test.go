package throttle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// On a day on which the clocks change, each entry starts once, and none starts before the entry in front of it.
func TestScheduleWhenTheClocksChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here: ", err)
	}
	s, err := parseSchedule("01:00,1/s 02:30,2/s 03:00,3/s 03:15,4/s", "")
	assert.NoError(t, err)
	for _, day := range []struct {
		name   string
		start  time.Time
		starts []string // of the rates 1 to 4, in UTC
	}{
		{"an hour is left out", time.Date(2026, 3, 29, 0, 30, 0, 0, berlin), []string{"00:00", "01:00", "01:00", "01:15"}},
		{"an hour comes twice", time.Date(2026, 10, 25, 0, 30, 0, 0, berlin), []string{"23:00", "01:30", "02:00", "02:15"}},
	} {
		t.Run(day.name, func(t *testing.T) {
			for i, want := range day.starts {
				assert.Equal(t, want, s[i].on(day.start).UTC().Format("15:04"))
			}
			at := day.start
			for range 5 * 60 {
				want := 4
				for i := range s {
					if !s[i].on(day.start).After(at) {
						want = i + 1
					}
				}
				assert.Equal(t, want, s.at(at).Permits, at)
				at = at.Add(time.Minute)
			}
		})
	}
}
