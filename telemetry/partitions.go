package telemetry

import (
	"fmt"

	"github.com/sluice-go/sluice/partition"
)

// Partitions makes metrics of a map of limiters, under a name: sluice.partition.live,
// .created, .dropped and .overflowed, its [partition.Counts]. There is one series of each
// however many keys there are. They are read when they are collected, and cost nothing until
// then.
//
// Equal names and stop are as in [Observe].
func Partitions[R any, K comparable](o Options, name string, p *partition.Keyed[R, K]) (stop func() error, err error) {
	if p == nil {
		return nil, fmt.Errorf("telemetry: Partitions of %q, which is nil", name)
	}
	return observations.observe(o, limiterName.String(name), observed{name, root(p), partitions, func(add func(int, int64)) {
		c := p.Counts()
		add(0, int64(c.Live))
		add(1, cut(c.Created))
		add(2, cut(c.Dropped))
		add(3, cut(c.Overflowed))
	}})
}

var partitions = &table{[]column{
	{name: "sluice.partition.live", unit: "{partition}", description: "Partitions that are there now."},
	{name: "sluice.partition.created", unit: "{partition}", description: "Partitions made.", counter: true},
	{name: "sluice.partition.dropped", unit: "{partition}", description: "Partitions dropped for idleness.", counter: true},
	{name: "sluice.partition.overflowed", unit: "{partition}", description: "Requests that found no room for a partition.", counter: true},
}}
