package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Observe makes metrics of what l counts, under a name: sluice.limiter.permits.limit,
// .available and .queued, and sluice.limiter.leases. They are read from its Statistics when
// they are collected, and cost nothing until then.
//
// Limiters that are observed with equal names and attributes are one to the metrics: their
// numbers are added. So a limiter may take the place of another before that one's stop. One
// that is observed twice, or instrumented too, is counted once.
//
// stop ends it; the metrics of the name are gone from the next collection on. A second stop
// does nothing. If the Statistics panic, the collection goes on without this limiter and
// reports an error.
func Observe(o Options, name string, l core.Reporter) (stop func() error, err error) {
	if argument.IsNil(l) {
		return nil, fmt.Errorf("telemetry: Observe of limiter %q, which is nil", name)
	}
	return observations.observe(o, limiterName.String(name), observed{name, root(l), limiters, func(add func(int, int64)) {
		s := l.Statistics()
		add(0, int64(s.Limit))
		add(1, int64(s.Available))
		add(2, int64(s.Queued))
		add(3, cut(s.Granted))
		add(4, cut(s.Rejected))
	}})
}

// column is one number that is observed.
type column struct {
	name, unit, description string
	counter                 bool
	result                  string // sluice.result; "": without
}

// table is a kind of things that are observed, by its columns.
type table struct{ columns []column }

var limiters = &table{[]column{
	{name: "sluice.limiter.permits.limit", unit: "{permit}", description: "The permit limit in force."},
	{name: "sluice.limiter.permits.available", unit: "{permit}", description: "Permits that could be taken now."},
	{name: "sluice.limiter.permits.queued", unit: "{permit}", description: "Permits that are waited for."},
	{name: "sluice.limiter.leases", unit: "{lease}", description: "Leases granted and rejected.", counter: true, result: granted},
	{name: "sluice.limiter.leases", unit: "{lease}", description: "Leases granted and rejected.", counter: true, result: rejected},
}}

// instruments makes the table's instruments, one for each column.
func (t *table) instruments(m metric.Meter) ([]metric.Int64Observable, error) {
	all := make([]metric.Int64Observable, len(t.columns))
	errs := make([]error, 0, len(t.columns))
	for i, c := range t.columns {
		var err error
		switch {
		case i > 0 && c.name == t.columns[i-1].name:
			all[i] = all[i-1]
		case c.counter:
			all[i], err = m.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description))
		default:
			all[i], err = m.Int64ObservableGauge(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description))
		}
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// observed is one thing that is observed.
type observed struct {
	name string
	of   any // a pointer, by which it is known again; nil: by nothing
	*table

	read func(add func(column int, n int64))
}

// root returns what is underneath l, if l is an instrumented limiter, as a pointer; else nil:
// only pointers tell, and not those to types of no size, which may all be the same.
func root(l any) any {
	for {
		i, ok := l.(interface{ underneath() core.Limiter })
		if !ok {
			break
		}
		l = i.underneath()
	}
	if t := reflect.TypeOf(l); t.Kind() != reflect.Pointer || t.Elem().Size() == 0 {
		return nil
	}
	return l
}

// addTo reads the numbers and adds them to the sums.
func (d *observed) addTo(sums []int64) (err error) {
	numbers := make([]int64, len(sums))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: reading %q panicked: %v", d.name, p)
		}
	}()
	d.read(func(i int, n int64) { numbers[i] = n })
	for i, n := range numbers {
		sums[i] = plus(sums[i], n)
	}
	return nil
}

// plus adds, up to the largest number: the limits of limiters may be that.
func plus(a, b int64) int64 {
	if sum := a + b; a <= 0 || b <= 0 || sum > 0 {
		return sum
	}
	return math.MaxInt64
}

func cut(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// callback returns what a meter calls at each collection, for things of one name.
func (t *table) callback(o Options, name attribute.KeyValue, instruments []metric.Int64Observable, all func() []*observed) metric.Callback {
	attributes := make([]metric.ObserveOption, len(t.columns))
	for i, c := range t.columns {
		if c.result == "" {
			attributes[i] = o.with(name)
		} else {
			attributes[i] = o.with(name, result.String(c.result))
		}
	}
	return func(_ context.Context, to metric.Observer) error {
		sums := make([]int64, len(t.columns))
		things, read := all(), false
		errs := make([]error, 0, len(things))
		seen := make(map[any]bool, len(things))
		for _, d := range things {
			if d.of != nil && seen[d.of] {
				continue
			}
			seen[d.of] = true
			err := d.addTo(sums)
			read = read || err == nil
			errs = append(errs, err)
		}
		if read {
			for i, sum := range sums {
				to.ObserveInt64(instruments[i], sum, attributes[i])
			}
		}
		return errors.Join(errs...)
	}
}
