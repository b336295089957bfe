package limits

import (
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
	sluice "github.com/sluice-go/sluice/telemetry/prometheus"
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

// States returns the states of all limits of p. There is one for all limits on requests by a key.
func (p *Policy) States() (all []State) {
	for _, s := range p.subjects() {
		all = append(all, s.States()...)
	}
	return all
}

// States returns the states of the limits of s.
func (s *Subject) States() (all []State) {
	if s.key == "" {
		all = s.statesOf(nil)
	} else {
		c := s.limiters.Counts()
		all = []State{{Of: s.what, Partitions: &c.Live, Overflowed: &c.Overflowed}}
	}
	if s.what == connections && len(all) > 0 {
		all[0].Rejected = new(s.rejected.Load())
	}
	return all
}

func (s *Subject) states(l core.Limiter) (all []State) {
	for _, p := range limited(l) {
		n := p.Statistics()
		all = append(all, State{s.what, &n.Limit, &n.Available, &n.Queued, &n.Granted, &n.Rejected, nil, nil})
	}
	return all
}

// limited returns the parts of a limiter that limit something.
func limited(l core.Limiter) (all []core.Reporter) {
	for _, p := range partsOf(l) {
		if r, ok := p.(core.Reporter); ok && r.Statistics().Limit < math.MaxInt {
			all = append(all, r)
		}
	}
	return all
}

// StatesOf returns the states of the limits of a policy for a key, which is written as an operator does. A key that has no
// limiter is in its initial state, unless another proxy on the same Redis server has one.
func (s *Set) StatesOf(policy string, key []string) (all []State, err error) {
	p, err := s.Policy(policy)
	if err != nil {
		return nil, err
	}
	values, err := p.Key.Values(key)
	if err != nil {
		return nil, err
	}
	for _, subject := range p.subjects() {
		all = append(all, subject.statesOf(values)...)
	}
	return all, nil
}

func (s *Subject) statesOf(values []string) []State {
	l, isNew := s.look(values)
	if isNew {
		defer closeParts(l)
	}
	return s.states(l)
}

// look returns the limiter of a key or, if it has none, a new one, which the caller closes. A request of 0 permits would create it, too, but
// would be counted.
func (s *Subject) look(values []string) (_ core.Limiter, isNew bool) {
	if l := s.of(values); l != nil {
		return l, false
	}
	l, err := s.fresh(values)
	return l, err == nil
}

// Collect sends the state of the limits to Prometheus. There is a series for each limit, and never one for a key.
func (s *Set) Collect(to chan<- prometheus.Metric) {
	one := make(map[string]core.Reporter)
	var unused []core.Limiter // closed at the end
	byKey := make(map[string]sluice.Partitions)
	for _, subject := range s.subjects {
		if subject.key != "" {
			byKey[subject.label()] = subject.limiters
			continue
		}
		l, isNew := subject.look(nil)
		if isNew {
			unused = append(unused, l)
		}
		limits, nth := subject.terms.Load().of(slot{}), make(map[spec.Kind]int)
		for i, p := range limited(l) {
			label := subject.label()
			if i < len(limits) && len(limits) > 1 {
				nth[limits[i].Kind]++
				label += fmt.Sprintf("/%s-%d", limits[i].Kind, nth[limits[i].Kind])
			}
			one[label] = p
		}
	}
	sluice.NewCollector(one).Collect(to)
	sluice.NewPartitions(byKey).Collect(to)
	for _, l := range unused {
		closeParts(l)
	}
}

// label is what metrics call the limits of s.
func (s *Subject) label() string {
	switch s.what {
	case requests:
		return s.Name
	case connections:
		return "listen/" + s.Name
	}
	return s.Name + "/" + s.what
}
