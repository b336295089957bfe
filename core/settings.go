package core

import (
	"github.com/sluice-go/sluice/internal/machine"
)

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

var unlabelled label
