package telemetry

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

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
	things       atomic.Pointer[[]*observed] // replaced under the registry's mutex
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
	g.replace(append(g.list(), &d))
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
	left := g.list()
	i := slices.Index(left, d)
	if i < 0 {
		return nil
	}
	left = slices.Delete(left, i, i+1)
	g.replace(left)
	if len(left) > 0 {
		return nil
	}
	if shared {
		delete(r.groups, key)
	}
	return g.registration.Unregister()
}

// list returns a copy of the list.
func (g *group) list() []*observed {
	if all := g.things.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (g *group) replace(all []*observed) { g.things.Store(&all) }
