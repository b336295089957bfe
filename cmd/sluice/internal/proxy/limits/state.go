package limits

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
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
	if s.one != nil {
		all = s.one.states()
	} else {
		c := s.keys.Counts()
		all = []State{{Of: s.what, Partitions: &c.Live, Overflowed: &c.Overflowed}}
	}
	if s.what == connections && len(all) > 0 {
		all[0].Rejected = new(s.rejected.Load())
	}
	return all
}

func (f *live) states() (all []State) {
	for _, p := range f.now().parts {
		n := p.Statistics()
		all = append(all, State{f.subject.what, &n.Limit, &n.Available, &n.Queued, &n.Granted, &n.Rejected, nil, nil})
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

func (s *Subject) statesOf(key []string) []State {
	f := s.of(key)
	if f == nil {
		f = newLive(s.slot(key))
		defer func() { _ = f.Close() }()
	}
	return f.states()
}

// Collect sends the state of the limits to Prometheus. There is a series for each limit, and never one for a key.
func (s *Set) Collect(to chan<- prometheus.Metric) {
	one := make(map[string]core.Reporter)
	byKey := make(map[string]sluice.Partitions)
	for _, subject := range s.subjects {
		if subject.one == nil {
			byKey[subject.label()] = subject.keys
			continue
		}
		parts := subject.one.now().parts
		for _, p := range parts {
			label := subject.label()
			if len(parts) > 1 {
				label += fmt.Sprintf("/%s-%d", p.limit.Kind, p.nth)
			}
			one[label] = p
		}
	}
	sluice.NewCollector(one).Collect(to)
	sluice.NewPartitions(byKey).Collect(to)
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
