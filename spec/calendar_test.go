package spec_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := spec.Parse("fixed 1/day tz " + name)
	require.NoError(t, err)
	start, _ := l.Calendar.Bounds(time.Now())
	return start.Location()
}

func TestCalendar(t *testing.T) {
	berlin := location(t, "Europe/Berlin")
	require.Equal(t, "Europe/Berlin", berlin.String())
	for text, c := range map[string]struct {
		calendar core.Calendar
		written  string // "": the same
	}{
		"fixed 1000/month":                             {core.Monthly(1, nil), ""},
		"fixed 1000/month day 15 tz Europe/Berlin":     {core.Monthly(15, berlin), ""},
		"fixed 1000/Months TZ Europe/Berlin DAY 15":    {core.Monthly(15, berlin), "fixed 1000/month day 15 tz Europe/Berlin"},
		"fixed 1000/month day 1 tz utc":                {core.Monthly(1, nil), "fixed 1000/month"},
		"fixed 1000/day tz Europe/Berlin":              {core.Daily(berlin), ""},
		"fixed 1000/days tz Utc":                       {core.Daily(nil), "fixed 1000/day tz UTC"},
		"fixed 1000/day tz LOCAL":                      {core.Daily(time.Local), "fixed 1000/day tz Local"},
		"fixed 1000/week from monday tz UTC":           {core.Weekly(time.Monday, nil), "fixed 1000/week tz UTC"},
		"fixed 1000/week from Monday":                  {core.Weekly(time.Monday, nil), "fixed 1000/week tz UTC"},
		"fixed 1000/weeks from sunday":                 {core.Weekly(time.Sunday, nil), "fixed 1000/week from sunday"},
		"fixed 1000/week from friday tz Europe/Berlin": {core.Weekly(time.Friday, berlin), ""},
		"fixed 1k/year":                                {core.Yearly(nil), "fixed 1000/year"},
		"fixed 1000/years tz Europe/Berlin":            {core.Yearly(berlin), "fixed 1000/year tz Europe/Berlin"},
	} {
		l, err := spec.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, spec.Limit{Kind: spec.FixedWindow, Permits: 1000, Calendar: c.calendar}, l)
		want := c.written
		if want == "" {
			want = text
		}
		require.Equal(t, want, l.String())
		again, err := spec.Parse(want)
		require.NoError(t, err)
		same := l == again
		require.True(t, same, "a location is loaded once")
		limiter, err := l.New("name")
		require.NoError(t, err)
		require.Equal(t, core.FixedWindowOptions{Name: "name", PermitLimit: 1000, Calendar: c.calendar}, limiter.(*core.FixedWindow).Options())
	}
	l, err := spec.Parse("fixed 2GB/month day 31 queue 5B newest-first")
	require.NoError(t, err)
	require.Equal(t, "fixed 2GB/month day 31 queue 5B newest-first", l.String())
}

func TestADayAndAWeekWithoutAPlaceHaveALength(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"fixed 1/day": day, "fixed 1/week": 7 * day, "fixed 1/2weeks": 14 * day, "bucket 1/week": 7 * day, "sliding 1/weeks": 7 * day,
	} {
		l, err := spec.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, l.Per)
		require.Zero(t, l.Calendar)
		again, err := spec.Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	}
}

func TestInvalidCalendars(t *testing.T) {
	for want, l := range map[string]spec.Limit{
		"spec: Limit.Calendar = day, want none for kind bucket":        {Kind: spec.TokenBucket, Permits: 1, Calendar: core.Daily(nil)},
		"spec: Limit.Per = 1s, want 0 with a Calendar":                 {Kind: spec.FixedWindow, Permits: 1, Per: time.Second, Calendar: core.Daily(nil)},
		"spec: Limit.Calendar = month day 32, want a day from 1 to 31": {Kind: spec.FixedWindow, Permits: 1, Calendar: core.Monthly(32, nil)},
		"spec: Limit.Calendar = day, want none for kind unlimited":     {Calendar: core.Daily(nil)},
	} {
		_, err := l.New("")
		require.EqualError(t, err, want)
	}
	for _, name := range []string{"", "Nowhere"} {
		l := spec.Limit{Kind: spec.FixedWindow, Permits: 1, Calendar: core.Daily(time.FixedZone(name, 3600))}
		_, err := l.MarshalText()
		require.ErrorContains(t, err, "want a time zone with an IANA name")
		_, err = l.New("")
		require.NoError(t, err)
		require.Contains(t, l.String(), "Permits:1")
	}
}

func TestUpdateToAndFromACalendar(t *testing.T) {
	limiter, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 1, Window: time.Hour, Anchor: time.Unix(0, 0), ManualReplenishment: true})
	require.NoError(t, err)
	l, err := spec.Parse("fixed 2/year")
	require.NoError(t, err)
	require.NoError(t, l.Update(limiter))
	require.Equal(t, core.FixedWindowOptions{PermitLimit: 2, Calendar: core.Yearly(nil)}, limiter.Options())
	l, err = spec.Parse("fixed 3/h")
	require.NoError(t, err)
	require.NoError(t, l.Update(limiter))
	require.Equal(t, core.FixedWindowOptions{PermitLimit: 3, Window: time.Hour}, limiter.Options())
}
