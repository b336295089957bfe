package prometheus

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// NewCollector returns a collector of the limiters' statistics, by their names:
//
//	sluice_limiter_permits_limit{sluice_limiter_name}          gauge
//	sluice_limiter_permits_available{sluice_limiter_name}      gauge
//	sluice_limiter_permits_queued{sluice_limiter_name}         gauge
//	sluice_limiter_leases_total{sluice_limiter_name, sluice_result="granted" or "rejected"}  counter
//
// It reads the Statistics at each scrape and costs nothing in between. The map is copied. A
// registry takes any number of such collectors as long as they have no name in common.
//
// If a limiter is nil, or its Statistics method panics, gathering reports an error in place of
// its metrics. Package promhttp then fails the whole scrape, unless its
// HandlerOpts.ErrorHandling is ContinueOnError.
func NewCollector(limiters map[string]core.Reporter) prometheus.Collector {
	return newCollector("limiter", metrics.Limiter, limiters, func(r core.Reporter) []int64 { return metrics.OfLimiter(r.Statistics()) })
}

// Partitions is a map of limiters: a [partition.Keyed], whatever its requests and keys.
type Partitions interface{ Counts() partition.Counts }

// NewPartitions returns a collector of the counts of maps of limiters, by their names. There is one
// series of each, however many keys there are:
//
//	sluice_partition_live{sluice_limiter_name}              gauge
//	sluice_partition_created_total{sluice_limiter_name}     counter
//	sluice_partition_dropped_total{sluice_limiter_name}     counter
//	sluice_partition_overflowed_total{sluice_limiter_name}  counter
//
// For everything else, see [NewCollector].
func NewPartitions(partitions map[string]Partitions) prometheus.Collector {
	return newCollector("partitions", metrics.Partitions, partitions, func(p Partitions) []int64 { return metrics.OfPartitions(p.Counts()) })
}

// collector reads its values at each scrape, in the order of the names.
type collector []source

// source is a limiter, or a map of them, with its metrics. Its name is a part of their descriptions, by
// which a registry recognizes duplicates.
type source struct {
	what    string // for errors
	columns []metrics.Column
	descs   []*prometheus.Desc // descriptors of the columns
	read    func() []int64     // a number for each column; nil if there is nothing to read
}

func newCollector[S any](kind string, columns []metrics.Column, sources map[string]S, read func(S) []int64) collector {
	c := make(collector, 0, len(sources))
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		of := source{what: fmt.Sprintf("%s %q", kind, name), columns: columns}
		if s := sources[name]; !backdoor.IsNil(s) {
			of.read = func() []int64 { return read(s) }
		}
		for _, column := range columns {
			labels := prometheus.Labels{"sluice_limiter_name": metrics.Label(name)}
			if column.Result != "" {
				labels["sluice_result"] = column.Result
			}
			of.descs = append(of.descs, prometheus.NewDesc(column.Prometheus(), column.Description, nil, labels))
		}
		c = append(c, of)
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, s := range c {
		for _, d := range s.descs {
			to <- d
		}
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c {
		if s.read == nil {
			to <- prometheus.NewInvalidMetric(s.descs[0], fmt.Errorf("prometheus: %s is nil", s.what))
			continue
		}
		numbers, err := metrics.Read(s.read)
		if err != nil {
			to <- prometheus.NewInvalidMetric(s.descs[0], fmt.Errorf("prometheus: reading %s %w", s.what, err))
			continue
		}
		for i, n := range numbers {
			kind := prometheus.GaugeValue
			if s.columns[i].Counter {
				kind = prometheus.CounterValue
			}
			to <- prometheus.MustNewConstMetric(s.descs[i], kind, float64(n))
		}
	}
}
