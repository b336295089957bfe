package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// periods are the times that may be calendar windows.
var periods = map[string]calendar.Unit{
	"day": calendar.Day, "days": calendar.Day, "week": calendar.Week, "weeks": calendar.Week,
	"month": calendar.Month, "months": calendar.Month, "year": calendar.Year, "years": calendar.Year,
}

// hasLength reports whether windows of the unit may also be of fixed length, from the limiter's
// creation.
func hasLength(u calendar.Unit) bool { return u == calendar.Day || u == calendar.Week }

// noLength returns the error for a month or a year, where only a time of fixed length will do; nil
// for other times.
func (p *parser) noLength(word, per string) error {
	name := strings.TrimLeft(per, "0123456789_")
	unit := periods[name]
	number, _, _ := strings.Cut(word, "/")
	name = strings.TrimSuffix(name, "s")
	switch {
	case unit == calendar.None || hasLength(unit):
		return nil
	case p.limit.Kind != FixedWindow:
		return wrong(word, "a %s has no fixed length, want fixed %s/%s", name, number, name)
	}
	return wrong(word, "want one %s, as in %s/%s", name, number, name)
}

func (p *parser) takeDay(value, low string) (err error) {
	if p.day, err = parseNumber(value, low, 1); err == nil && p.day > 31 {
		err = wrong(value, "want a day from 1 to 31")
	}
	return err
}

func (p *parser) takeWeekday(value, low string) error {
	if p.weekday = slices.Index(weekdays, low); p.weekday < 0 {
		return wrong(value, "want a weekday, such as monday")
	}
	return nil
}

func (p *parser) takeZone(value, _ string) (err error) {
	p.zone, err = zone(value)
	return err
}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// calendar puts the words of the calendar into the limit.
func (p *parser) calendar() error {
	calendarOnly := false
	for _, o := range p.seen {
		if !o.fits(p.unit) {
			return wrong(o.word, "only for %s", o.only)
		}
		calendarOnly = calendarOnly || o.units != nil
	}
	if p.unit == calendar.None || hasLength(p.unit) && !calendarOnly {
		return nil
	}
	p.limit.Per = 0
	switch p.unit {
	case calendar.Week:
		p.limit.Calendar = core.Weekly(time.Weekday(p.weekday), p.zone)
	case calendar.Month:
		p.limit.Calendar = core.Monthly(p.day, p.zone)
	case calendar.Year:
		p.limit.Calendar = core.Yearly(p.zone)
	default:
		p.limit.Calendar = core.Daily(p.zone)
	}
	return nil
}

// zones are the locations by name, so that equal texts give equal locations.
var zones sync.Map

// zone returns the location of a name; nil for UTC.
func zone(name string) (*time.Location, error) {
	switch lower(name) {
	case "utc":
		return nil, nil
	case "local":
		return time.Local, nil
	}
	if path.Clean(name) != name { // another spelling, which some systems take
		return nil, fmt.Errorf("%q: unknown time zone", "tz "+name)
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q: unknown time zone", "tz "+name)
	}
	first, _ := zones.LoadOrStore(name, loc)
	return first.(*time.Location), nil
}

// validCalendar returns which calendar would be valid, for an error; "" if the calendar is valid.
func (l Limit) validCalendar() (want string) {
	if l.Kind != FixedWindow {
		return fmt.Sprintf("none for kind %v", l.Kind)
	}
	return calendar.Calendar(l.Calendar).Want()
}

// named returns an error if the calendar's time zone has no name by which it could be loaded: a zone of
// [time.FixedZone] has none, even if it is called like another.
func (l Limit) named() error {
	loc := calendar.Calendar(l.Calendar).Location()
	if loc == time.UTC || loc == time.Local {
		return nil
	}
	if name := loc.String(); name != "" && lower(name) != "local" {
		if named, err := zone(name); err == nil && sameZone(named, loc) {
			return nil
		}
	}
	return fmt.Errorf("spec: Limit.Calendar = %v, want a time zone with an IANA name", l.Calendar)
}

// sameZone reports whether two locations have the same clock, at the start of each month of
// 150 years. The zero location is UTC.
func sameZone(a, b *time.Location) bool {
	if a == nil {
		a = time.UTC
	}
	if a == b {
		return true
	}
	for month := range 150 * 12 {
		t := time.Date(1900, time.Month(1+month), 1, 0, 0, 0, 0, time.UTC)
		_, x := t.In(a).Zone()
		_, y := t.In(b).Zone()
		if x != y {
			return false
		}
	}
	return true
}

// calendarText returns the calendar as the text has it, after the slash.
func (l Limit) calendarText() string {
	text := l.Calendar.String()
	if calendar.Calendar(l.Calendar).Location() == time.Local { // whose name is the system's
		before, _, _ := strings.Cut(text, " tz ")
		return before + " tz Local"
	}
	if text == "day" || text == "week" {
		text += " tz UTC" // without it, they are of fixed length
	}
	return text
}
