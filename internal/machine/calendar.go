package machine

import (
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
)

// Calendar says where the windows of a calendar start, in instants. Segment 0 is the
// current window, From and Span of the terms.
//
// Instants are those of a clock on the wall, which may be set back: they may decrease. The current
// window stays until its end, also before its start.
type Calendar struct {
	calendar.Calendar
	Zero int64 // the Unix time of instant 0, in nanoseconds
}

// Enter puts the window that an instant is in into the terms.
func (t *Terms) Enter(at int64) {
	c := t.Calendar
	start, end := c.Unix(floor(c.Zero+at, int64(time.Second)))
	t.From = c.instant(start)
	t.Span = c.instant(end) - t.From
}

// Shift moves the current window of a calendar by d, as instants are counted from another one.
func (t *Terms) Shift(d int64) {
	c := *t.Calendar
	c.Zero -= d
	t.Calendar = &c
	t.From += d
}

// instant returns the instant of a Unix time in seconds, or Never.
func (c *Calendar) instant(unix int64) int64 {
	if unix > Never/int64(time.Second) {
		return Never
	}
	nanos := unix * int64(time.Second)
	if at := nanos - c.Zero; c.Zero >= 0 || at > nanos {
		return at
	}
	return Never
}

// after returns the instant at which the n-th window after a segment starts, or Never.
func (c *Calendar) after(t *Terms, segment int64, n uint64) int64 {
	switch n += uint64(segment); n {
	case 0:
		return t.From
	case 1:
		return t.End()
	}
	return c.instant(c.After((c.Zero+t.From)/int64(time.Second), n))
}

// segment returns the segment of an instant; -1 for all before the current window.
func (c *Calendar) segment(t *Terms, at int64) int64 {
	if at < t.From {
		return -1
	}
	segment := int64(0)
	for at >= t.startOf(segment+1) {
		segment++
	}
	return segment
}

func (c *Calendar) same(d *Calendar) bool {
	return c == d || c != nil && d != nil && *c == *d
}

// floor returns n / d, rounded down; d is above 0.
func floor(n, d int64) int64 {
	if n < 0 {
		return -1 - (-1-n)/d
	}
	return n / d
}
