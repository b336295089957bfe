package core

import (
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
)

// place puts the windows where they belong at the current time; old are the settings before, nil at
// the start.
func (s *settings) place(old *settings, c *clock.Clock, now int64) {
	switch {
	case s.calendar == Calendar{} && old == nil:
		s.From = s.origin(c)
	case s.calendar == Calendar{}:
		s.From = s.originAfter(old, c)
	case old != nil && old.calendar == s.calendar:
		s.Calendar, s.From, s.Span = old.Calendar, old.From, old.Span // also if the clock was set back
	default:
		s.Calendar = &machine.Calendar{Calendar: calendar.Calendar(s.calendar)}
		if old != nil && old.Calendar != nil {
			s.Calendar.Zero = old.Calendar.Zero
		} else {
			s.Calendar.Zero = c.Zero().UnixNano()
		}
		s.Enter(now)
	}
}

// origin returns where a window's grid starts: at the anchor plus or minus whole windows, the last
// one that is not after instant 0. The grid of a zero anchor starts at instant 0.
func (s *settings) origin(c *clock.Clock) int64 {
	if s.anchor.IsZero() {
		return 0
	}
	d := unixModulo(s.anchor, s.Span) - unixModulo(c.Zero(), s.Span)
	if d > 0 {
		d -= s.Span
	}
	return d
}

// originAfter is origin after an Update. If the length stays, the grid moves by as much as the anchor
// does: the clocks are not read again, because the same time has other readings each time.
func (s *settings) originAfter(old *settings, c *clock.Clock) int64 {
	if s.Span != old.Span || s.anchor.IsZero() || old.anchor.IsZero() {
		return s.origin(c)
	}
	d := unixModulo(s.anchor, s.Span) - unixModulo(old.anchor, s.Span)
	if d > 0 {
		d -= s.Span
	}
	if d <= -s.Span-old.From { // the sum would be a whole length too low, and could overflow
		d += s.Span
	}
	return old.From + d
}

// unixModulo returns the nanoseconds from 1970 to t, modulo length, whatever the year.
func unixModulo(t time.Time, length int64) int64 {
	m := uint64(length)
	sec, negative := uint64(t.Unix()), t.Unix() < 0
	if negative {
		sec = -sec
	}
	hi, lo := bits.Mul64(sec, uint64(time.Second))
	r := bits.Rem64(hi, lo, m)
	if negative && r != 0 {
		r = m - r
	}
	// Both are below 2^63, so the sum does not overflow.
	return int64((r + uint64(t.Nanosecond())%m) % m)
}
