package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
)

// Parse returns the limit that s describes. The grammar is in the package's documentation. An
// error names the invalid word and what was expected in its place.
func Parse(s string) (Limit, error) {
	p := parser{words: strings.Fields(s), day: 1, weekday: int(time.Monday)}
	if err := p.parse(); err != nil {
		return Limit{}, fmt.Errorf("spec: %w", err)
	}
	return p.limit, nil
}

// parser reads a line word by word.
type parser struct {
	words []string // not taken yet, as they were written
	limit Limit
	seen  []*option

	// For a fixed window that may be of the calendar.
	unit    calendar.Unit // None: its time is another
	day     int
	weekday int
	zone    *time.Location // nil: UTC
}

// wrong is an error about a word.
func wrong(word, format string, args ...any) error {
	return fmt.Errorf("%q: %s", word, fmt.Sprintf(format, args...))
}

// take returns the next word, as it is and in lower case.
func (p *parser) take() (word, low string) {
	word, p.words = p.words[0], p.words[1:]
	return word, lower(word)
}

func (p *parser) parse() error {
	if len(p.words) == 0 {
		return errors.New("no words, want a limit such as 100/s")
	}
	p.limit.Kind = TokenBucket
	kind, ok := kindOf(lower(p.words[0]))
	if ok {
		p.limit.Kind = kind
		p.take()
	} else if c := p.words[0][0]; c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
		return wrong(p.words[0], "unknown kind, want %s, or an amount such as 100/s", wantKind)
	}
	if err := p.amount(); err != nil {
		return err
	}
	for len(p.words) > 0 {
		if err := p.option(); err != nil {
			return err
		}
	}
	if err := p.calendar(); err != nil {
		return err
	}
	if l := p.limit; l.tooManySegments() {
		return wrong("segments", "%d are more than the %d nanoseconds of the window", l.segments(), int64(l.Per))
	}
	return nil
}

// amount takes the permits, and the time of rates.
func (p *parser) amount() (err error) {
	example, timed := "10", p.limit.Kind.timed()
	if timed {
		example = "100/s"
	}
	switch {
	case !p.limit.Kind.counted():
		return nil
	case len(p.words) == 0:
		return wrong(p.limit.Kind.String(), "want an amount after it, such as %s", example)
	}
	word, low := p.take()
	number, per, slash := strings.Cut(low, "/")
	switch {
	case number == "" || !slash && !digit(number[0]):
		return wrong(word, "want an amount, such as %s", example)
	case slash && !timed:
		return wrong(word, "%v has no time, want an amount such as %s", p.limit.Kind, example)
	case !slash && timed:
		return noTime(word, low)
	}
	p.limit.Bytes = strings.HasSuffix(number, "b")
	if p.limit.Permits, err = parseNumber(word, number, 1); err != nil || !timed {
		return err
	}
	if p.limit.Kind == FixedWindow {
		if p.unit = periods[per]; p.unit != calendar.None && !hasLength(p.unit) {
			return nil
		}
	}
	if err := p.noLength(word, per); err != nil {
		return err
	}
	p.limit.Per, err = parseTime(word, per)
	return err
}

// otherTime splits an amount with a time as others write it, such as 10rps or 5hz, into the number and the
// time. The time is "" if it is none.
func otherTime(low string) (number, per string) {
	if number, ok := strings.CutSuffix(low, "hz"); ok {
		return number, "s"
	}
	for unit, per := range map[string]string{"ps": "s", "pm": "min", "ph": "h", "pd": "day"} {
		if number, ok := strings.CutSuffix(low, unit); ok {
			if n := len(number) - 1; n >= 0 && strings.IndexByte("pqrt", number[n]) >= 0 { // packets, queries, requests, transactions
				number = number[:n]
			}
			return number, per
		}
	}
	return low, ""
}

// noTime returns the error for an amount without a / and a time. For a word such as 10rps it
// shows how to write that here.
func noTime(word, low string) error {
	if number, ok := strings.CutSuffix(word, "bps"); ok && digit(low[0]) {
		return wrong(word, "bits or bytes? want bytes, such as %sB/s", strings.TrimRight(number, "iI"))
	}
	number, per := otherTime(low)
	if _, err := parseNumber(word, number, 1); err == nil && per != "" {
		return wrong(word, "want it as %s/%s", word[:len(number)], per)
	}
	if _, err := parseNumber(word, low, 1); err != nil {
		return err
	}
	return wrong(word, "no time, want an amount such as %s/s", word)
}

// option takes one of the words after the amount, with its number or value.
func (p *parser) option() error {
	word, low := p.take()
	o := optionOf(low)
	switch {
	case o == nil:
		return wrong(word, "unknown word, want %s", p.wanted())
	case !o.belongs(p.limit.Kind):
		return wrong(word, "not a word of %v, want %s", p.limit.Kind, p.wanted())
	case slices.Contains(p.seen, o) && o.word == order:
		return wrong(word, "a second order, want %v, %v or %v once", core.OldestFirst, core.NewestFirst, core.FairShare)
	case slices.Contains(p.seen, o):
		return wrong(word, "there twice, want it once")
	}
	p.seen = append(p.seen, o)
	switch {
	case o.word == order:
		return p.limit.Order.UnmarshalText([]byte(low))
	case len(p.words) == 0 && o.calendar != nil:
		return wrong(word, "want a value after it, such as %s", o.calendar.example)
	case len(p.words) == 0:
		return wrong(word, "want a number after it, such as %s 20", low)
	}
	value, lowValue := p.take()
	if o.calendar != nil {
		return o.calendar.take(p, value, lowValue)
	}
	n, err := parseNumber(value, lowValue, o.least)
	*o.of(&p.limit) = n
	return err
}

// String returns the limit as a line that Parse turns into the same Limit, such as "100/s".
// Bytes are written with their largest whole unit, such as "8MiB/s". For an invalid Limit it
// returns the fields.
func (l Limit) String() string {
	if l.validate() != nil || l.named() != nil {
		type bare Limit // without this method
		return fmt.Sprintf("%+v", bare(l))
	}
	if !l.Kind.counted() {
		return l.Kind.String()
	}
	b := make([]byte, 0, 64)
	if l.Kind != TokenBucket {
		b = append(b, l.Kind.String()...)
		b = append(b, ' ')
	}
	b = l.appendPermits(b, l.Permits)
	if l.Calendar != (core.Calendar{}) {
		b = append(b, '/')
		b = append(b, l.calendarText()...)
	}
	if l.Per != 0 {
		b = append(b, '/')
		b = append(b, formatTime(l.Per)...)
	}
	for _, o := range options {
		switch {
		case o.of == nil || *o.of(&l) == 0:
		case o.permits:
			b = l.appendPermits(append(b, " "+o.word+" "...), *o.of(&l))
		default:
			b = strconv.AppendInt(append(b, " "+o.word+" "...), int64(*o.of(&l)), 10)
		}
	}
	if l.Order != core.OldestFirst {
		b = append(b, ' ')
		b = append(b, l.Order.String()...)
	}
	return string(b)
}

// appendPermits appends n permits, which may be bytes.
func (l Limit) appendPermits(b []byte, n int) []byte {
	if !l.Bytes {
		return strconv.AppendInt(b, int64(n), 10)
	}
	unit := ""
	for _, u := range []string{"k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti"} {
		if n > 0 && uint64(n)%units[lower(u)] == 0 {
			unit = u
		}
	}
	b = strconv.AppendUint(b, uint64(n)/units[lower(unit)], 10)
	b = append(b, unit...)
	return append(b, 'B')
}

// MarshalText implements [encoding.TextMarshaler] with String. It returns an error for a Limit
// that no text describes.
func (l Limit) MarshalText() ([]byte, error) {
	if err := errors.Join(l.validate(), l.named()); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with Parse. On an error it leaves l
// unchanged.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
