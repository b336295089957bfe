package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/core"
)

// String returns the limit as a line that Parse turns into the same Limit, such as "100/s".
// Bytes are written with their largest whole unit, such as "8MiB/s". For an invalid Limit, it
// returns a debug representation of the fields.
func (l Limit) String() string {
	if l.validate() != nil || l.named() != nil {
		type bare Limit // without this method
		return fmt.Sprintf("%+v", bare(l))
	}
	if !l.Kind.counted() {
		return l.Kind.String()
	}
	var words []string
	if l.Kind != TokenBucket {
		words = append(words, l.Kind.String())
	}
	amount := l.permitsText(l.Permits)
	switch {
	case l.Calendar != (core.Calendar{}):
		amount += "/" + l.calendarText()
	case l.Per != 0:
		amount += "/" + formatTime(l.Per)
	}
	words = append(words, amount)
	for _, o := range options {
		switch {
		case o.number == nil || *o.number(&l) == 0:
		case o.permits:
			words = append(words, o.word, l.permitsText(*o.number(&l)))
		default:
			words = append(words, o.word, strconv.Itoa(*o.number(&l)))
		}
	}
	if l.Order != core.OldestFirst {
		words = append(words, l.Order.String())
	}
	return strings.Join(words, " ")
}

// permitsText returns n permits, which may be bytes, as the text has them.
func (l Limit) permitsText(n int) string {
	if !l.Bytes {
		return strconv.Itoa(n)
	}
	unit := ""
	for _, u := range []string{"k", "Ki", "M", "Mi", "G", "Gi", "T", "Ti"} {
		if n > 0 && uint64(n)%units[lower(u)] == 0 {
			unit = u
		}
	}
	return strconv.FormatUint(uint64(n)/units[lower(unit)], 10) + unit + "B"
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
