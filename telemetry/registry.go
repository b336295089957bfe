package telemetry

import (
	"reflect"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// observations are all things that are observed now.
//
// They are kept here since a meter keeps one number for each set of attributes: if two
// callbacks observed a gauge with equal ones, it would show the number that came last.
var observations registry

// registry is the groups of things that are one to their meter.
type registry struct {
	// A meter's own lock is taken under it. Callbacks, which run under that lock, do not
	// take it.
	mu     sync.Mutex
	groups map[groupKey]*group
}

type groupKey struct {
	provider   metric.MeterProvider
	table      *table
	attributes attribute.Distinct
}

// group is the things that one callback reads.
type group struct {
	mu           sync.Mutex // guards things; a leaf
	things       []*observed
	registration metric.Registration
}

// observe has a meter read d at each collection, until stop.
func (r *registry) observe(o Options, name attribute.KeyValue, d observed) (stop func() error, err error) {
	set := o.set(name)
	key := groupKey{o.provider(), d.table, set.Equivalent()}
	shared := reflect.ValueOf(key.provider).Comparable()

	r.mu.Lock()
	defer r.mu.Unlock()
	var g *group
	if shared {
		g = r.groups[key]
	}
	if g == nil {
		if g, err = newGroup(o, name, d.table); err != nil {
			return nil, err
		}
		if shared {
			if r.groups == nil {
				r.groups = make(map[groupKey]*group)
			}
			r.groups[key] = g
		}
	}
	g.add(&d)
	return func() error { return r.stop(key, shared, g, &d) }, nil
}

func newGroup(o Options, name attribute.KeyValue, t *table) (*group, error) {
	m := o.meter()
	instruments, err := t.instruments(m)
	if err != nil {
		return nil, err
	}
	observables := make([]metric.Observable, len(instruments))
	for i, instrument := range instruments {
		observables[i] = instrument
	}
	g := new(group)
	g.registration, err = m.RegisterCallback(t.callback(o, name, instruments, g.list), observables...)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// stop takes d out of its group. The group ends with its last.
func (r *registry) stop(key groupKey, shared bool, g *group, d *observed) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there, last := g.remove(d); !there || !last {
		return nil
	}
	if shared {
		delete(r.groups, key)
	}
	return g.registration.Unregister()
}

// list returns a copy of the list.
func (g *group) list() []*observed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.things)
}

func (g *group) add(d *observed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.things = append(g.things, d)
}

// remove takes d out, and reports whether it was there, and the last that was.
func (g *group) remove(d *observed) (there, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.things, d)
	if i < 0 {
		return false, false
	}
	g.things = slices.Delete(g.things, i, i+1)
	return true, len(g.things) == 0
}
