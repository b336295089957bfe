package spec

import (
	"slices"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// option is a word that may follow the amount, with a number or, for calendar windows, another value.
type option struct {
	word    string
	kinds   []Kind
	field   string              // of Limit
	of      func(l *Limit) *int // the field; nil: it is not a number
	least   int                 // of the number in a text; the field may also be 0
	permits bool                // the number is one of permits, which may be bytes

	calendar *calendarOption
}

// calendarOption is the part of an option that only words for calendar windows have.
type calendarOption struct {
	unit    calendar.Unit // the only one that may have it; None: all
	example string        // the word with a value
	only    string        // the windows that may have it, for an error
	take    func(p *parser, value, low string) error
}

// options are all options, in the order of String. The last one stands for the words of the three orders.
var options = []option{
	{word: "burst", kinds: []Kind{TokenBucket}, field: "Burst", of: func(l *Limit) *int { return &l.Burst }, least: 1, permits: true},
	{word: "day", kinds: []Kind{FixedWindow}, calendar: &calendarOption{calendar.Month, "day 15", "a month, as in 1000/month day 15", (*parser).takeDay}},
	{word: "from", kinds: []Kind{FixedWindow}, calendar: &calendarOption{calendar.Week, "from sunday", "a week, as in 500/week from sunday", (*parser).takeWeekday}},
	{word: "tz", kinds: []Kind{FixedWindow}, calendar: &calendarOption{calendar.None, "tz Europe/Berlin", "a day, week, month or year, as in 100/day tz UTC", (*parser).takeZone}},
	{word: "segments", kinds: []Kind{SlidingWindow}, field: "Segments", of: func(l *Limit) *int { return &l.Segments }, least: 1},
	{word: "queue", kinds: queued, field: "Queue", of: func(l *Limit) *int { return &l.Queue }, permits: true},
	{word: order, kinds: queued},
}

// queued are the kinds whose requests may wait.
var queued = []Kind{Concurrency, TokenBucket, FixedWindow, SlidingWindow}

const order = "order"

// optionOf returns the option that a word in lower case stands for, or nil.
func optionOf(word string) *option {
	if new(core.QueueOrder).UnmarshalText([]byte(word)) == nil {
		return &options[len(options)-1]
	}
	for i := range options[:len(options)-1] {
		if options[i].word == word {
			return &options[i]
		}
	}
	return nil
}

// belongs reports whether limits of the kind may have the option.
func (o *option) belongs(k Kind) bool { return slices.Contains(o.kinds, k) }

// fits reports whether windows of the unit, or None for a time of fixed length, may have the option.
func (o *option) fits(u calendar.Unit) bool {
	if o.calendar == nil {
		return true
	}
	return u != calendar.None && (o.calendar.unit == calendar.None || o.calendar.unit == u)
}

// wanted lists the words that the limit may have.
func (p *parser) wanted() string {
	var words []string
	for i := range options[:len(options)-1] {
		if o := &options[i]; o.belongs(p.limit.Kind) && o.fits(p.unit) {
			words = append(words, o.word)
		}
	}
	if len(words) == 0 {
		return "nothing more"
	}
	return strings.Join(words, ", ") + ", oldest-first, newest-first or fair-share"
}
