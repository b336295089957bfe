package telemetry

import (
	"fmt"

	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
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
	return o.observe(name, metrics.Partitions, func() []int64 { return metrics.OfPartitions(p.Counts()) })
}
