package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
)

// A Calendar says where the windows of a [FixedWindow] begin: each day, week, month or year, in a
// time zone. Make it with [Daily], [Weekly], [Monthly] or [Yearly]. The zero Calendar is none.
//
// A window begins at the first instant of its day in the zone. That is midnight; where the clocks
// skip midnight it is the instant after the gap, and where midnight comes twice it is the first. A
// window lasts until the next one begins, so a day may have 23 or 25 hours. A day that a zone has
// skipped altogether, as Samoa has skipped 30 December 2011, has no window; a week or month
// that would begin on it begins on the next day.
//
// Calendars are comparable: two are equal if they were made alike, with the same *time.Location.
type Calendar calendar.Calendar

// Daily returns windows of a day, from midnight. A nil location is UTC.
func Daily(loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Day, 1, 0, loc))
}

// Weekly returns windows of a week that begin on a weekday. A nil location is UTC. A limiter
// rejects a weekday out of range.
func Weekly(first time.Weekday, loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Week, 1, int(first), loc))
}

// Monthly returns windows of a month that begin on a day of the month, from 1 to 31; in a month
// without that day, on the month's last day. A nil location is UTC. A limiter rejects a day out of
// range.
func Monthly(day int, loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Month, 1, day, loc))
}

// Yearly returns windows of a year, from 1 January. A nil location is UTC.
func Yearly(loc *time.Location) Calendar {
	return Calendar(calendar.New(calendar.Year, 1, 0, loc))
}

// Bounds returns the beginning and the end of the window that t is in, in the calendar's location:
// the last window that has begun by t. The end is the beginning of the next window. Both times are zero
// for the zero Calendar, and for one with a day or weekday out of range.
func (c Calendar) Bounds(t time.Time) (start, end time.Time) {
	return calendar.Calendar(c).Bounds(t)
}

// String returns the calendar as the text of a limit has it, and as short as it can be: "day tz
// Europe/Berlin", "week from sunday", "month day 15", "year". UTC, monday and day 1 are left out.
// The zero Calendar is "".
func (c Calendar) String() string { return calendar.Calendar(c).String() }

// lookEvery is how often waiters for the next window look at the clock on the wall, which may be
// set.
const lookEvery = int64(time.Minute)

// rollLocked makes the calendar's window of now the current one. Each window has its own settings, so that
// its leases know its length. If it is the next window, waiters are served as of its boundary, however
// late that is. If windows were skipped, the clock was set, or the machine was suspended: waiters look at
// the clock once a minute, and no timer is late by a day. The skipped windows grant nothing.
func (e *engine) rollLocked(now int64) {
	e.concludeLocked()
	old := e.settings.Load()
	s := old.copy()
	s.Enter(now)
	at := now
	if s.From == old.End() && !e.m.Empty() {
		at = s.From
	}
	e.settings.Store(s)
	e.m.Roll(at, &s.Terms)
}
