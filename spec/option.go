package spec

import (
	"slices"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// option is a word that may follow the amount.
type option struct {
	word  string
	kinds []Kind
	value string // an example of the value that follows the word; "": none follows

	// take reads the value, or the word if no value follows it, as it was written and in lower case; nil for a number.
	take func(p *parser, value, low string) error

	// Only if the value is a number.
	field   string // field of Limit
	number  func(l *Limit) *int
	least   int  // least number in a text; the field may also be 0
	permits bool // the number is one of permits, which may be bytes

	// Only if the word is for calendar windows.
	units []calendar.Unit
	only  string // the windows that may have it, for an error
}

// options are all options, in the order of String.
var options = []option{
	{
		word: "burst", kinds: []Kind{TokenBucket}, value: "20",
		field: "Burst", number: func(l *Limit) *int { return &l.Burst }, least: 1, permits: true,
	},
	{
		word: "day", kinds: []Kind{FixedWindow}, value: "15", take: (*parser).takeDay,
		units: []calendar.Unit{calendar.Month}, only: "a month, as in 1000/month day 15",
	},
	{
		word: "from", kinds: []Kind{FixedWindow}, value: "sunday", take: (*parser).takeWeekday,
		units: []calendar.Unit{calendar.Week}, only: "a week, as in 500/week from sunday",
	},
	{
		word: "tz", kinds: []Kind{FixedWindow}, value: "Europe/Berlin", take: (*parser).takeZone,
		units: []calendar.Unit{calendar.Day, calendar.Week, calendar.Month, calendar.Year},
		only:  "a day, week, month or year, as in 100/day tz UTC",
	},
	{
		word: "segments", kinds: []Kind{SlidingWindow}, value: "20",
		field: "Segments", number: func(l *Limit) *int { return &l.Segments }, least: 1,
	},
	{
		word: "queue", kinds: queued, value: "20",
		field: "Queue", number: func(l *Limit) *int { return &l.Queue }, permits: true,
	},
	{word: core.OldestFirst.String(), kinds: queued, take: (*parser).takeOrder},
	{word: core.NewestFirst.String(), kinds: queued, take: (*parser).takeOrder},
	{word: core.FairShare.String(), kinds: queued, take: (*parser).takeOrder},
}

// queued are the kinds whose requests may wait.
var queued = []Kind{Concurrency, TokenBucket, FixedWindow, SlidingWindow}

// belongs reports whether limits of the kind may have the option.
func (o *option) belongs(k Kind) bool { return slices.Contains(o.kinds, k) }

// fits reports whether windows of the unit, or None for a time of fixed length, may have the option.
func (o *option) fits(u calendar.Unit) bool { return o.units == nil || slices.Contains(o.units, u) }

// option takes one of the words after the amount, with its value.
func (p *parser) option() error {
	word, low := p.next()
	at := slices.IndexFunc(options, func(o option) bool { return o.word == low })
	switch {
	case at < 0:
		return wrong(word, "unknown word, want %s", p.wanted())
	case !options[at].belongs(p.limit.Kind):
		return wrong(word, "not a word of %v, want %s", p.limit.Kind, p.wanted())
	}
	o, value, lowValue := &options[at], word, low
	switch {
	case slices.Contains(p.seen, o):
		return wrong(word, "given twice, want it once")
	case o.value != "" && len(p.words) == 0 && o.number != nil:
		return wrong(word, "want a number after it, such as %s %s", low, o.value)
	case o.value != "" && len(p.words) == 0:
		return wrong(word, "want a value after it, such as %s %s", low, o.value)
	case o.value != "":
		value, lowValue = p.next()
	}
	p.seen = append(p.seen, o)
	if o.number == nil {
		return o.take(p, value, lowValue)
	}
	n, err := parseNumber(value, lowValue, o.least)
	*o.number(&p.limit) = n
	return err
}

// takeOrder takes one of the words of the orders.
func (p *parser) takeOrder(word, low string) error {
	if p.ordered {
		return wrong(word, "a second order, want %v, %v or %v once", core.OldestFirst, core.NewestFirst, core.FairShare)
	}
	p.ordered = true
	return p.limit.Order.UnmarshalText([]byte(low))
}

// wanted lists the words that the limit may have.
func (p *parser) wanted() string {
	var words []string
	for i := range options {
		if o := &options[i]; o.belongs(p.limit.Kind) && o.fits(p.unit) {
			words = append(words, o.word)
		}
	}
	if len(words) == 0 {
		return "nothing more"
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
