package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
)

// A Calendar makes the windows of a [FixedWindow] days, weeks, months or years in a time zone. Create
// it with [Daily], [Weekly], [Monthly] or [Yearly]. The zero Calendar means no calendar.
//
// A window starts at midnight and lasts until the next one starts, so a day may have 23 or 25 hours.
// Calendars are comparable: two are equal if they were created with the same arguments, including the
// same *time.Location.
//
// # Edge cases
//
// If the clocks skip midnight, a window starts right after the gap. If midnight comes twice, it starts
// at the first one. A day that a zone skipped altogether, such as 30 December 2011 in Samoa, has no
// window; a week or month that would start on that day starts on the next.
type Calendar calendar.Calendar

// Daily returns windows of a day, from midnight. A nil location is UTC.
func Daily(loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Day, 0, loc))
}

// Weekly returns windows of a week that start on a weekday. A nil location is UTC. [NewFixedWindow]
// rejects a weekday out of range.
func Weekly(first time.Weekday, loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Week, int(first), loc))
}

// Monthly returns windows of a month that start on a day of the month, from 1 to 31, or on the last
// day of a month that does not have that day. A nil location is UTC. [NewFixedWindow] rejects a day
// out of range.
func Monthly(day int, loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Month, day, loc))
}

// Yearly returns windows of a year, from 1 January. A nil location is UTC.
func Yearly(loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Year, 0, loc))
}

// Bounds returns the start and the end of the window that contains t, in the calendar's location. The
// end is the start of the next window. Both times are zero for the zero Calendar, and for one with a
// day or weekday out of range.
func (c Calendar) Bounds(t time.Time) (start, end time.Time) {
	return calendar.Calendar(c).Bounds(t)
}

// String returns the calendar in the syntax of package spec, in its shortest form: "day tz
// Europe/Berlin", "week from sunday", "month day 15", "year". UTC, monday and day 1 are omitted. The
// zero Calendar is "".
func (c Calendar) String() string { return calendar.Calendar(c).String() }
