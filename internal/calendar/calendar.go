// Package calendar computes windows of whole days, weeks, months and years in a time zone.
//
// A window starts at the first time of its day, whatever the clocks of the place do there. All times
// are Unix times in seconds, as no zone changes between seconds. Package time is used only for the
// offset of a zone at a given time: Time.ZoneBounds is wrong for years beyond 2037.
package calendar

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Unit is what a window is made of.
type Unit uint8

// The units.
const (
	None Unit = iota
	Day
	Week
	Month
	Year
)

// names are the units' words in a Calendar's text.
var names = [...]string{Day: "day", Week: "week", Month: "month", Year: "year"}

// Calendar says where windows start. The zero Calendar has none. Calendars are comparable: equal
// arguments of [New] give equal Calendars.
type Calendar struct {
	unit  Unit
	first int            // a week's first day, 0 for Sunday; a month's, from 1
	loc   *time.Location // nil means UTC
}

// New returns the windows of a unit. first is the weekday of a Week, and the day of a Month, on which windows start,
// and 0 for others. A nil location is UTC.
func New(u Unit, first int, loc *time.Location) Calendar {
	if loc == time.UTC {
		loc = nil
	}
	return Calendar{unit: u, first: first, loc: loc}
}

// Location returns the place, never nil.
func (c Calendar) Location() *time.Location {
	if c.loc == nil {
		return time.UTC
	}
	return c.loc
}

// Want returns the range of an invalid argument of New, for an error; "" if all are valid.
func (c Calendar) Want() string {
	switch {
	case c.unit > Year:
		return "a calendar of package core"
	case c.unit == Week && (c.first < 0 || c.first > 6):
		return "a weekday from Sunday to Saturday"
	case c.unit == Month && (c.first < 1 || c.first > 31):
		return "a day from 1 to 31"
	}
	return ""
}

// Bounds returns the start and the end of the window that t is in, in the location; zero times
// if the Calendar has no windows, and for times that are a billion years away.
func (c Calendar) Bounds(t time.Time) (start, end time.Time) {
	const far = 1 << 55
	if at := t.Unix(); c.unit == None || c.Want() != "" || at < -far || at > far {
		return time.Time{}, time.Time{}
	}
	s, e := c.Unix(t.Unix())
	return time.Unix(s, 0).In(c.Location()), time.Unix(e, 0).In(c.Location())
}

// Unix is Bounds in Unix times, for a Calendar that has windows.
func (c Calendar) Unix(at int64) (start, end int64) {
	k := c.window(at)
	return c.startOf(k), c.startOf(k + 1)
}

// After returns the start of the n-th window after the one that starts at start; math.MaxInt64
// if that is far beyond any year in use.
func (c Calendar) After(start int64, n uint64) int64 {
	const far = 1 << 35 // the year 3058
	if n > far/day {
		return math.MaxInt64
	}
	k := c.window(start)
	at := c.startOf(k + int64(n))
	if c.offset(at)-c.offset(start) < day/2 {
		return at
	}
	// The place has crossed the date line and skipped a day, which has no window.
	for at = start; n > 0 && at < far; n-- {
		_, at = c.Unix(at)
	}
	return at
}

// String returns the shortest text: "day tz Europe/Berlin". UTC, Monday and day 1 are left out.
func (c Calendar) String() string {
	if c.unit == None || int(c.unit) >= len(names) {
		return ""
	}
	var b strings.Builder
	b.WriteString(names[c.unit])
	switch {
	case c.unit == Week && c.Want() != "":
		fmt.Fprintf(&b, " from %d", c.first)
	case c.unit == Week && c.first != int(time.Monday):
		b.WriteString(" from " + strings.ToLower(time.Weekday(c.first).String()))
	case c.unit == Month && c.first != 1:
		fmt.Fprintf(&b, " day %d", c.first)
	}
	if c.loc != nil {
		b.WriteString(" tz " + c.loc.String())
	}
	return b.String()
}

const (
	hour = 60 * 60
	day  = 24 * hour
)

// window returns the number of the last window that has started.
func (c Calendar) window(at int64) int64 {
	k := c.number(floor(at+c.offset(at), day))
	// Its day is not after the day of at, so it has started. Where clocks go back over midnight, the
	// next has started too; and where a day is skipped, so have the windows of both days.
	for c.startOf(k+1) <= at {
		k++
	}
	return k
}

// number returns the window that the days, counted from 1970, are in where no clock ever changes.
func (c Calendar) number(days int64) int64 {
	switch c.unit {
	case Week:
		return floor(days-c.week(), 7)
	case Month:
		y, m, d := time.Unix(days*day, 0).UTC().Date()
		months := int64(y-1970)*12 + int64(m-time.January)
		if d < c.dayOf(y, m) {
			months--
		}
		return months
	case Year:
		return int64(time.Unix(days*day, 0).UTC().Year() - 1970)
	}
	return days
}

// day returns the day, counted from 1970, on which a window starts.
func (c Calendar) day(window int64) int64 {
	switch c.unit {
	case Week:
		return c.week() + 7*window
	case Month:
		y := floor(window, 12)
		m := time.Month(window-12*y) + time.January
		y += 1970
		return date(int(y), m, c.dayOf(int(y), m))
	case Year:
		return date(1970+int(window), time.January, 1)
	}
	return window
}

// week returns the first day from 1 January 1970, a Thursday, on which a week starts.
func (c Calendar) week() int64 { return int64(c.first+7-int(time.Thursday)) % 7 }

// dayOf returns the day of a month on which a window starts.
func (c Calendar) dayOf(y int, m time.Month) int {
	if c.first <= 28 {
		return c.first
	}
	return min(c.first, time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// startOf returns when a window starts: the first time at which its day, or a later one, is the
// date.
func (c Calendar) startOf(window int64) int64 {
	midnight := c.day(window) * day
	if c.loc == nil {
		return midnight
	}
	// Between the changes of its clocks a place has one offset, and midnight comes once if at all.
	// In all that is known of zones, changes are days apart and of at most 24 hours.
	const reach, step = 26 * hour, 4 * hour
	for a := midnight - c.offset(midnight) - reach; ; a += step {
		b, before, after := a+step, c.offset(a), c.offset(a+step)
		changed := b
		if before != after {
			changed = c.change(a, b, before)
		}
		if at := max(a, midnight-before); at < changed {
			return at
		}
		if at := max(changed, midnight-after); at < b { // at the change itself if midnight does not exist
			return at
		}
	}
}

// change returns when the offset changes between a, where it is known, and b.
func (c Calendar) change(a, b, before int64) int64 {
	for b-a > 1 {
		if m := a + (b-a)/2; c.offset(m) == before {
			a = m
		} else {
			b = m
		}
	}
	return b
}

// offset returns the seconds east of UTC.
func (c Calendar) offset(at int64) int64 {
	if c.loc == nil {
		return 0
	}
	_, seconds := time.Unix(at, 0).In(c.loc).Zone()
	return int64(seconds)
}

// date returns the days from 1970.
func date(y int, m time.Month, d int) int64 {
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / day
}

// floor returns n / d, rounded down; d is above 0.
func floor(n, d int64) int64 {
	if n < 0 {
		return -1 - (-1-n)/d
	}
	return n / d
}
