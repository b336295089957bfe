package prometheus

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

const limiterName = "sluice_limiter_name"

// NewCollector returns a collector of what limiters count, by their names:
//
//	sluice_limiter_permits_limit{sluice_limiter_name}          gauge
//	sluice_limiter_permits_available{sluice_limiter_name}      gauge
//	sluice_limiter_permits_queued{sluice_limiter_name}         gauge
//	sluice_limiter_leases_total{sluice_limiter_name, sluice_result="granted" or "rejected"}  counter
//
// The Statistics are read at each scrape, and cost nothing until then. The map is copied. If
// a limiter's Statistics panic, or it is nil, the scrape has an error instead of its metrics.
// A registry takes one such collector; where each limiter has to have one of its own, wrap the
// registry with [prometheus.WrapRegistererWith] and a label that tells them apart.
func NewCollector(limiters map[string]core.Reporter) prometheus.Collector {
	labels := []string{limiterName}
	return &collector{
		limiters:  maps.Clone(limiters),
		limit:     prometheus.NewDesc("sluice_limiter_permits_limit", "The permit limit in force.", labels, nil),
		available: prometheus.NewDesc("sluice_limiter_permits_available", "Permits that could be taken now.", labels, nil),
		queued:    prometheus.NewDesc("sluice_limiter_permits_queued", "Permits that are waited for.", labels, nil),
		leases: prometheus.NewDesc("sluice_limiter_leases_total", "Leases granted and rejected.",
			[]string{limiterName, "sluice_result"}, nil),
	}
}

type collector struct {
	limiters                         map[string]core.Reporter
	limit, available, queued, leases *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.limit, c.available, c.queued, c.leases} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, name := range slices.Sorted(maps.Keys(c.limiters)) {
		s, err := statistics(name, c.limiters[name])
		if err != nil {
			to <- prometheus.NewInvalidMetric(c.limit, err)
			continue
		}
		label := valid(name)
		gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
		to <- prometheus.MustNewConstMetric(c.limit, gauge, float64(s.Limit), label)
		to <- prometheus.MustNewConstMetric(c.available, gauge, float64(s.Available), label)
		to <- prometheus.MustNewConstMetric(c.queued, gauge, float64(s.Queued), label)
		to <- prometheus.MustNewConstMetric(c.leases, counter, float64(s.Granted), label, "granted")
		to <- prometheus.MustNewConstMetric(c.leases, counter, float64(s.Rejected), label, "rejected")
	}
}

// statistics reads those of a limiter.
func statistics(name string, l core.Reporter) (s core.Statistics, err error) {
	if argument.IsNil(l) {
		return s, fmt.Errorf("prometheus: limiter %q is nil", name)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("prometheus: Statistics of limiter %q panicked: %v", name, p)
		}
	}()
	return l.Statistics(), nil
}
