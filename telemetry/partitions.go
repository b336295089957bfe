package telemetry

import (
	"fmt"

	"github.com/sluice-go/sluice/partition"
)

// Partitions reports the [partition.Counts] of a map of limiters, under a name:
// sluice.partition.live, .created, .dropped and .overflowed. There is one series of each,
// however many keys there are. It reads the counts at each collection and costs nothing in
// between.
//
// For equal names, and for stop, see [Observe].
func Partitions[R any, K comparable](o Options, name string, p *partition.Keyed[R, K]) (stop func() error, err error) {
	if p == nil {
		return nil, fmt.Errorf("telemetry: Partitions of %q, which is nil", name)
	}
	return o.observe(name, partitionColumns, func() []int64 {
		c := p.Counts()
		return []int64{int64(c.Live), total(c.Created), total(c.Dropped), total(c.Overflowed)}
	})
}

var partitionColumns = []column{
	{name: "sluice.partition.live", unit: "{partition}", description: "Partitions that are there now."},
	{name: "sluice.partition.created", unit: "{partition}", description: "Partitions made.", counter: true},
	{name: "sluice.partition.dropped", unit: "{partition}", description: "Partitions dropped for idleness.", counter: true},
	{name: "sluice.partition.overflowed", unit: "{partition}", description: "Requests that found no room for a partition.", counter: true},
}
