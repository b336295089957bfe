package spec

import (
	"errors"
	"fmt"
	"strconv"

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
		case o.number == nil || *o.number(&l) == 0:
		case o.permits:
			b = l.appendPermits(append(b, " "+o.word+" "...), *o.number(&l))
		default:
			b = strconv.AppendInt(append(b, " "+o.word+" "...), int64(*o.number(&l)), 10)
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
