package spec

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	words   []string // not taken yet, as they were written
	limit   Limit
	seen    []*option
	ordered bool // an order was among the words

	// For a fixed window that may be of the calendar.
	unit    calendar.Unit // None: its time is another
	day     int
	weekday int
	zone    *time.Location // nil means UTC
}

// wrong is an error about a word.
func wrong(word, format string, args ...any) error {
	return fmt.Errorf("%q: %s", word, fmt.Sprintf(format, args...))
}

// next returns the next word, as it was written and in lower case.
func (p *parser) next() (word, low string) {
	word, p.words = p.words[0], p.words[1:]
	return word, lower(word)
}

func (p *parser) parse() error {
	if len(p.words) == 0 {
		return errors.New("no words, want a limit such as 100/s")
	}
	for _, word := range p.words {
		if strings.HasSuffix(word, ",") {
			return wrong(word, "a comma, want a single limit")
		}
	}
	p.limit.Kind = TokenBucket
	kind, ok := kindOf(lower(p.words[0]))
	if ok {
		p.limit.Kind = kind
		p.next()
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
	word, low := p.next()
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
