package calendar_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/testkit"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(tb, err)
	return loc
}

func daily(loc *time.Location) calendar.Calendar { return calendar.New(calendar.Day, 0, loc) }

func weekly(first time.Weekday) func(*time.Location) calendar.Calendar {
	return func(loc *time.Location) calendar.Calendar { return calendar.New(calendar.Week, int(first), loc) }
}

func monthly(day int) func(*time.Location) calendar.Calendar {
	return func(loc *time.Location) calendar.Calendar { return calendar.New(calendar.Month, day, loc) }
}

func yearly(loc *time.Location) calendar.Calendar { return calendar.New(calendar.Year, 0, loc) }

func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	v, err := time.Parse(time.RFC3339, text)
	require.NoError(tb, err)
	return v
}

// Bounds whose truth was looked up in the laws of the place.
func TestOddPlaces(t *testing.T) {
	for _, c := range []struct {
		what                  string
		windows               func(*time.Location) calendar.Calendar
		place, at, start, end string
	}{
		{"midnight is skipped", daily, "America/Sao_Paulo", "2017-10-15T12:00:00Z", "2017-10-15T01:00:00-02:00", "2017-10-16T00:00:00-02:00"},
		{"the day before", daily, "America/Sao_Paulo", "2017-10-15T02:59:59Z", "2017-10-14T00:00:00-03:00", "2017-10-15T01:00:00-02:00"},
		{"23:00 comes again", daily, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"midnight is skipped", daily, "Africa/Cairo", "2023-04-28T12:00:00Z", "2023-04-28T01:00:00+03:00", "2023-04-29T00:00:00+03:00"},
		{"23:00 comes again", daily, "Africa/Cairo", "2023-10-26T20:59:59Z", "2023-10-26T00:00:00+03:00", "2023-10-27T00:00:00+02:00"},
		{"midnight is skipped", daily, "Asia/Beirut", "2024-03-31T12:00:00Z", "2024-03-31T01:00:00+03:00", "2024-04-01T00:00:00+03:00"},
		{"midnight comes twice", daily, "America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"the window does not go back with the date", daily, "America/St_Johns", "2010-11-07T02:31:00Z", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"half an hour", daily, "Australia/Lord_Howe", "2024-04-07T00:00:00Z", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30"},
		{"a day that is skipped", daily, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"the day after", daily, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"a week from a day that is skipped", weekly(time.Friday), "Pacific/Apia", "2012-01-01T00:00:00Z", "2011-12-31T00:00:00+14:00", "2012-01-06T00:00:00+14:00"},
		{"the week before", weekly(time.Friday), "Pacific/Apia", "2011-12-25T00:00:00Z", "2011-12-23T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"a month from a day that is skipped", monthly(30), "Pacific/Apia", "2012-01-01T00:00:00Z", "2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00"},
		{"a month from the day before", monthly(29), "Pacific/Apia", "2012-01-01T00:00:00Z", "2011-12-29T00:00:00-10:00", "2012-01-29T00:00:00+14:00"},
		{"a day that comes twice", daily, "Pacific/Kwajalein", "1969-09-30T13:00:00Z", "1969-09-30T00:00:00+11:00", "1969-10-01T00:00:00-12:00"},
		{"two hours", daily, "Antarctica/Troll", "2024-03-31T12:00:00Z", "2024-03-31T00:00:00Z", "2024-04-01T00:00:00+02:00"},
		{"summer time is the standard", daily, "Europe/Dublin", "2024-10-27T12:00:00Z", "2024-10-27T00:00:00+01:00", "2024-10-28T00:00:00Z"},
		{"a month with a change", monthly(15), "Europe/Berlin", "2024-04-01T00:00:00Z", "2024-03-15T00:00:00+01:00", "2024-04-15T00:00:00+02:00"},
		{"the 31st in February", monthly(31), "Europe/Berlin", "2024-03-01T00:00:00Z", "2024-02-29T00:00:00+01:00", "2024-03-31T00:00:00+01:00"},
		{"the 30th in February", monthly(30), "UTC", "2023-02-28T00:00:00Z", "2023-02-28T00:00:00Z", "2023-03-30T00:00:00Z"},
		{"the 29th in February", monthly(29), "UTC", "2023-02-27T23:59:59Z", "2023-01-29T00:00:00Z", "2023-02-28T00:00:00Z"},
		{"the 29th in a leap year", monthly(29), "UTC", "2024-02-28T23:59:59Z", "2024-01-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"no leap year", monthly(29), "UTC", "2100-03-01T00:00:00Z", "2100-02-28T00:00:00Z", "2100-03-29T00:00:00Z"},
		{"the 31st in April", monthly(31), "UTC", "2024-05-01T00:00:00Z", "2024-04-30T00:00:00Z", "2024-05-31T00:00:00Z"},
		{"before the day", monthly(15), "UTC", "2024-01-14T23:59:59.999999999Z", "2023-12-15T00:00:00Z", "2024-01-15T00:00:00Z"},
		{"a leap year", yearly, "America/New_York", "2024-12-31T12:00:00Z", "2024-01-01T00:00:00-05:00", "2025-01-01T00:00:00-05:00"},
		{"a leap year by rules", yearly, "America/New_York", "2040-12-31T12:00:00Z", "2040-01-01T00:00:00-05:00", "2041-01-01T00:00:00-05:00"},
		{"the last day of a leap year by rules", daily, "Australia/Sydney", "2040-12-31T12:59:59Z", "2040-12-31T00:00:00+11:00", "2041-01-01T00:00:00+11:00"},
		{"a week", weekly(time.Monday), "Europe/Berlin", "2024-03-31T21:59:59Z", "2024-03-25T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		{"a week from sunday", weekly(time.Sunday), "Europe/Berlin", "2024-03-31T21:59:59Z", "2024-03-31T00:00:00+01:00", "2024-04-07T00:00:00+02:00"},
		{"before 1970", weekly(time.Thursday), "UTC", "1969-12-31T23:59:59.5Z", "1969-12-25T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"the year 0", yearly, "UTC", "0000-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		t.Run(c.place+" "+c.what, func(t *testing.T) {
			start, end := c.windows(zone(t, c.place)).Bounds(at(t, c.at))
			require.Equal(t, c.start, start.Format(time.RFC3339))
			require.Equal(t, c.end, end.Format(time.RFC3339))
			require.Equal(t, zone(t, c.place).String(), start.Location().String())
		})
	}
}

func TestString(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for want, c := range map[string]calendar.Calendar{
		"":                                  {},
		"day":                               daily(nil),
		"day tz Europe/Berlin":              daily(berlin),
		"day tz Local":                      daily(time.Local),
		"week":                              weekly(time.Monday)(time.UTC),
		"week from sunday":                  weekly(time.Sunday)(nil),
		"week from 7":                       weekly(7)(nil),
		"month":                             monthly(1)(nil),
		"month day 15":                      monthly(15)(nil),
		"month day 0":                       monthly(0)(nil),
		"year tz Europe/Berlin":             yearly(berlin),
		"week from sunday tz Europe/Berlin": weekly(time.Sunday)(berlin),
	} {
		require.Equal(t, want, c.String())
	}
	require.Equal(t, daily(nil), daily(time.UTC))
	require.Equal(t, time.UTC, daily(nil).Location())
}

func TestNoWindows(t *testing.T) {
	for _, c := range []calendar.Calendar{
		{}, weekly(-1)(nil), weekly(7)(nil), monthly(0)(nil), monthly(32)(nil), calendar.New(5, 0, nil),
	} {
		start, end := c.Bounds(at(t, "2024-01-01T00:00:00Z"))
		require.True(t, start.IsZero(), c)
		require.True(t, end.IsZero(), c)
	}
	start, _ := daily(nil).Bounds(time.Unix(math.MaxInt64, 0))
	require.True(t, start.IsZero())
}

// places are zones with rules that are odd, or were.
var places = strings.Fields(`UTC Europe/Berlin America/New_York America/Los_Angeles America/Sao_Paulo America/St_Johns America/Havana
	America/Asuncion America/Santiago America/Scoresbysund America/Juneau America/Noronha America/Caracas America/Argentina/San_Luis
	Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Freetown Africa/Monrovia Asia/Beirut Asia/Amman Asia/Gaza Asia/Hebron
	Asia/Tehran Asia/Kathmandu Asia/Kolkata Asia/Manila Asia/Pyongyang Asia/Singapore Asia/Dhaka Asia/Ho_Chi_Minh
	Atlantic/Azores Australia/Lord_Howe Australia/Sydney Antarctica/Troll Antarctica/Macquarie Antarctica/Casey Europe/Dublin
	Europe/Lisbon Europe/Moscow Europe/Samara Pacific/Apia Pacific/Fakaofo Pacific/Kiritimati Pacific/Enderbury Pacific/Kwajalein
	Pacific/Chatham Pacific/Guam Pacific/Norfolk Pacific/Honolulu`)

// walk is the naive oracle: it looks at the date minute by minute, and at odd seconds where the
// place's offset has some, and returns when windows start.
func walk(loc *time.Location, startsOn func(time.Time) bool, from, to time.Time) (starts []time.Time) {
	y, m, d := from.In(loc).Date()
	latest := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // the dates up to this have been
	for t := from; t.Before(to); t = t.Add(step(loc, t)) {
		y, m, d := t.In(loc).Date()
		today := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
		start := false
		for ; latest.Before(today); latest = latest.AddDate(0, 0, 1) {
			start = start || startsOn(latest.AddDate(0, 0, 1))
		}
		if start {
			starts = append(starts, t)
		}
	}
	return starts
}

// step is an hour, a minute near a midnight or a change of the clocks, and a second where offsets
// have seconds.
func step(loc *time.Location, t time.Time) time.Duration {
	_, a := t.In(loc).Zone()
	_, b := t.Add(time.Hour).In(loc).Zone()
	switch {
	case t.In(loc).Hour() != 23 && a == b:
		return time.Hour
	case a%60 == 0 && b%60 == 0:
		return time.Minute
	}
	return time.Second
}

func everyDay(time.Time) bool  { return true }
func newYear(t time.Time) bool { return t.YearDay() == 1 }

func weekday(d time.Weekday) func(time.Time) bool {
	return func(t time.Time) bool { return t.Weekday() == d }
}

func dayOfMonth(d int) func(time.Time) bool {
	return func(t time.Time) bool {
		last := t.AddDate(0, 0, 1).Day() == 1
		return t.Day() == d || last && t.Day() < d
	}
}

// The weeks around each change of the clocks of odd places, as the oracle has them.
func TestAgainstOracle(t *testing.T) {
	cases := []struct{ place, from, to string }{
		{"America/Sao_Paulo", "2017-09-20", "2018-04-02"},
		{"Africa/Cairo", "2014-05-01", "2014-11-03"},
		{"Africa/Cairo", "2023-04-01", "2023-11-30"},
		{"Asia/Beirut", "2024-03-01", "2024-11-30"},
		{"Asia/Gaza", "2011-03-01", "2011-11-01"},
		{"America/St_Johns", "2010-02-20", "2010-12-03"},
		{"America/Havana", "2024-02-27", "2024-12-01"},
		{"Australia/Lord_Howe", "2024-03-01", "2024-11-01"},
		{"Pacific/Apia", "2011-09-01", "2012-04-30"},
		{"Pacific/Kwajalein", "1969-09-01", "1969-11-02"},
		{"Pacific/Kwajalein", "1993-08-01", "1993-10-02"},
		{"Asia/Manila", "1844-12-01", "1845-02-02"},
		{"America/Juneau", "1867-10-01", "1867-11-02"},
		{"Africa/Freetown", "1939-08-25", "1939-09-20"},
		{"Antarctica/Troll", "2024-03-01", "2024-11-30"},
		{"Europe/Dublin", "2024-01-01", "2024-12-31"},
		{"Europe/Dublin", "2039-12-01", "2041-02-01"},
		{"America/New_York", "2103-12-01", "2105-02-01"},
		{"UTC", "2023-12-15", "2024-04-01"},
	}
	for _, c := range cases[:testkit.Rounds(len(cases))] {
		t.Run(c.place+" "+c.from, func(t *testing.T) {
			loc, from, to := zone(t, c.place), at(t, c.from+"T00:00:00Z"), at(t, c.to+"T00:00:00Z")
			startsOn := map[calendar.Calendar]func(time.Time) bool{daily(loc): everyDay, yearly(loc): newYear}
			for _, d := range []time.Weekday{time.Sunday, time.Friday} {
				startsOn[weekly(d)(loc)] = weekday(d)
			}
			for _, d := range []int{1, 15, 29, 30, 31} {
				startsOn[monthly(d)(loc)] = dayOfMonth(d)
			}
			for k, startsOn := range startsOn {
				starts := walk(loc, startsOn, from, to)
				for i := 1; i < len(starts); i++ {
					for _, at := range []time.Time{starts[i-1], starts[i-1].Add(1), starts[i-1].Add(starts[i].Sub(starts[i-1]) / 2), starts[i].Add(-1)} {
						start, end := k.Bounds(at)
						require.Equal(t, starts[i-1].Unix(), start.Unix(), "%v at %v", k, at)
						require.Equal(t, starts[i].Unix(), end.Unix(), "%v at %v", k, at)
					}
				}
				for n := range min(len(starts), 100) {
					require.Equal(t, starts[n].Unix(), k.After(starts[0].Unix(), uint64(n)), "%v after %v", k, n)
				}
			}
		})
	}
}

func TestAfterTheEnd(t *testing.T) {
	require.Equal(t, int64(math.MaxInt64), daily(nil).After(0, math.MaxUint64))
	require.Equal(t, int64(math.MaxInt64), yearly(nil).After(0, 1<<20))
	require.Equal(t, int64(1000*86400), daily(nil).After(0, 1000))
}

// holds checks what Bounds promises of any time.
func holds(tb testing.TB, k calendar.Calendar, at time.Time) {
	tb.Helper()
	start, end := k.Bounds(at)
	require.False(tb, start.After(at), "%v at %v: %v", k, at, start)
	require.True(tb, at.Before(end), "%v at %v: %v", k, at, end)
	for _, same := range []time.Time{start, end.Add(-1)} {
		s, e := k.Bounds(same)
		require.True(tb, s.Equal(start) && e.Equal(end), "%v at %v: %v %v", k, same, s, e)
	}
	next, _ := k.Bounds(end)
	require.True(tb, next.Equal(end), "%v after %v: %v", k, end, next)
	_, previous := k.Bounds(start.Add(-1))
	require.True(tb, previous.Equal(start), "%v before %v: %v", k, start, previous)
	y, m, d := start.Date()
	y2, m2, d2 := start.Add(-1).Date()
	require.False(tb, y == y2 && m == m2 && d == d2, "%v at %v: the date was that a moment before", k, start)
}

func random(kind, first uint8, loc *time.Location) calendar.Calendar {
	switch kind % 4 {
	case 0:
		return daily(loc)
	case 1:
		return weekly(time.Weekday(first % 7))(loc)
	case 2:
		return monthly(int(first%31) + 1)(loc)
	}
	return yearly(loc)
}

func TestRandom(t *testing.T) {
	zones := make([]*time.Location, len(places))
	for i, p := range places {
		zones[i] = zone(t, p)
	}
	r := rand.New(rand.NewPCG(1, 2))
	from, to := at(t, "1800-01-01T00:00:00Z").Unix(), at(t, "2500-01-01T00:00:00Z").Unix()
	for range 10_000 {
		holds(t, random(uint8(r.Uint32()), uint8(r.Uint32()), zones[r.IntN(len(zones))]), time.Unix(from+r.Int64N(to-from), r.Int64N(1e9)))
	}
}

func FuzzBounds(f *testing.F) {
	for i := range places {
		f.Add(int64(1325239200), uint32(i), uint8(i), uint8(i%4), uint8(i))
	}
	f.Fuzz(func(t *testing.T, sec int64, nsec uint32, place, kind, first uint8) {
		const far = 300_000_000_000 // 9,500 years
		holds(t, random(kind, first, zone(t, places[int(place)%len(places)])), time.Unix(sec%far, int64(nsec%1e9)))
	})
}
