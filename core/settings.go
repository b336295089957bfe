package core

import (
	"math/bits"
	"time"

	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
)

// settings are a limiter's current options. They do not change: an Update makes new ones, and
// leases keep those under which they were granted.
type settings struct {
	*label
	machine.Terms

	shared handle // of leases that hold nothing
	owner  owner  // nil: of leases that no limiter of this package has granted, and of those of a chain
}

// label holds the rarely used settings. Limiters that set none of them share one label.
type label struct {
	name     string
	anchor   time.Time     // a window's, as it was given
	calendar Calendar      // a fixed window's
	hook     backdoor.Hook // called at the end of leases; nil: they are not watched
}

var unlabelled label

// newSettings returns settings that no limiter has yet.
func newSettings(o Options) *settings { return settingsOf(o.label(), o.terms()) }

func settingsOf(l label, t machine.Terms) *settings {
	if l.name == "" && l.anchor.IsZero() && l.calendar == (Calendar{}) {
		s := &settings{label: &unlabelled, Terms: t}
		s.shared.s.Store(s)
		return s
	}
	s := new(labelled)
	s.set(l, t)
	return &s.settings
}

// labelled are settings with a label of their own.
type labelled struct {
	settings
	own label
}

func (s *labelled) set(l label, t machine.Terms) {
	s.own, s.label, s.Terms = l, &s.own, t
	s.shared.s.Store(&s.settings)
}

// copy returns equal settings.
func (s *settings) copy() *settings {
	k := &settings{label: s.label, Terms: s.Terms, owner: s.owner}
	k.shared.s.Store(k)
	return k
}

// same reports whether new settings would be equal to s.
func (s *settings) same(l label, t machine.Terms) bool {
	t.From, t.Epoch = s.From, s.Epoch
	if t.Calendar = s.Calendar; t.Calendar != nil {
		t.Span = s.Span
	}
	return s.Terms == t && s.name == l.name && s.calendar == l.calendar &&
		s.anchor.Equal(l.anchor) && s.anchor.IsZero() == l.anchor.IsZero()
}

// mode returns the machine's mode of a limiter.
func mode(o QueueOrder, manual bool) (m machine.Mode) {
	switch o {
	case NewestFirst:
		m |= machine.NewestFirst
	case FairShare:
		m |= machine.FairShare
	}
	if manual {
		m |= machine.Manual
	}
	return m
}

func (s *settings) order() QueueOrder {
	switch {
	case s.NewestFirst():
		return NewestFirst
	case s.FairShare():
		return FairShare
	}
	return OldestFirst
}

// window returns what the metadata calls by that name; 0: nothing. It is how long a full replenishment takes.
func (s *settings) window() int64 {
	if s.owner == nil {
		return s.Span // of a chain: that of one of its limiters
	}
	return s.owner.window(s)
}

// place puts the windows where they belong, at the instant now; old are the settings before, nil at
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
// does: the clocks are not read again, because the same instant has other readings each time.
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
