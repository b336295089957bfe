package limits

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	sluice "github.com/sluice-go/sluice/telemetry/prometheus"
)

var (
	liveDesc       = describe("sluice_partition_live", "Keys that have a limiter now.")
	createdDesc    = describe("sluice_partition_created_total", "Limiters made for keys.")
	droppedDesc    = describe("sluice_partition_dropped_total", "Limiters of keys dropped for idleness.")
	overflowedDesc = describe("sluice_partition_overflowed_total", "Requests whose key found no room.")
)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"sluice_limiter_name"}, nil)
}

// Collect sends the state of the limits to Prometheus. There is a series for each limit, and never one for a key.
func (s *Set) Collect(to chan<- prometheus.Metric) {
	all := make(map[string]*Limit)
	for _, p := range s.Policies {
		for _, l := range p.Limits() {
			all[p.label(l)] = l
		}
		if c, ok := p.OverrideCounts(); ok {
			collectCounts(to, c, p.Name+"/overrides")
		}
	}
	for _, l := range s.Connections {
		all["listen/"+l.Name()] = l
	}
	shared := make(map[string]core.Reporter)
	for label, l := range all {
		switch {
		case l.keyed != nil:
			collectCounts(to, l.keyed.keys.Counts(), label)
		case l.one != nil:
			shared[label] = l.one
		}
	}
	sluice.NewCollector(shared).Collect(to)
}

func collectCounts(to chan<- prometheus.Metric, c partition.Counts, label string) {
	to <- prometheus.MustNewConstMetric(liveDesc, prometheus.GaugeValue, float64(c.Live), label)
	to <- prometheus.MustNewConstMetric(createdDesc, prometheus.CounterValue, float64(c.Created), label)
	to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(c.Dropped), label)
	to <- prometheus.MustNewConstMetric(overflowedDesc, prometheus.CounterValue, float64(c.Overflowed), label)
}
