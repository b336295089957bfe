package limits

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// State is the state of a limit: without a key its permits, with a key how many of them have a limiter.
type State struct {
	Of         string  `json:"of"`
	Limit      *int    `json:"limit,omitempty"`
	Available  *int    `json:"available,omitempty"`
	Queued     *int    `json:"queued,omitempty"`
	Granted    *uint64 `json:"granted,omitempty"`
	Rejected   *uint64 `json:"rejected,omitempty"`
	Partitions *int    `json:"partitions,omitempty"`
	Overflowed *uint64 `json:"overflowed,omitempty"`
}

// State returns the state of the limit.
func (m *Limit) State() State {
	s := State{Of: m.id.what}
	switch {
	case m.keyed != nil:
		c := m.keyed.keys.Counts()
		s.Partitions, s.Overflowed = &c.Live, &c.Overflowed
	case m.one != nil:
		s.set(m.one.Statistics())
	}
	if m.id.what == connections {
		rejected := m.rejected.Load()
		s.Rejected = &rejected
	}
	return s
}

// StateOf returns the state of the limiter of a key. A key that has none is in its initial state, unless another proxy on the
// same Redis server has one.
func (m *Limit) StateOf(key []string) (State, error) {
	s := State{Of: m.id.what}
	if m.id.kind == spec.Unlimited {
		return s, nil
	}
	l := m.of(key)
	if l == nil {
		made, err := m.follow(names(key)[0])
		if err != nil {
			return s, err
		}
		defer func() { _ = made.Close() }()
		l = made
	}
	s.set(l.Statistics())
	return s, nil
}

func (s *State) set(n core.Statistics) {
	s.Limit, s.Available, s.Queued, s.Granted, s.Rejected = &n.Limit, &n.Available, &n.Queued, &n.Granted, &n.Rejected
}
