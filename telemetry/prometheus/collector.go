package prometheus

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
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
	c := make(collector, 0, len(limiters))
	for _, name := range slices.Sorted(maps.Keys(limiters)) {
		c = append(c, newLimiter(name, limiters[name]))
	}
	return c
}

// collector is the limiters, in the order of their names.
type collector []*limiter

// limiter is a limiter with its metrics. Its name is a part of their descriptions, by which a
// registry recognizes duplicates.
type limiter struct {
	name                             string
	reporter                         core.Reporter
	limit, available, queued, leases *prometheus.Desc
}

func newLimiter(name string, r core.Reporter) *limiter {
	labels := prometheus.Labels{"sluice_limiter_name": valid(name)}
	return &limiter{
		name:      name,
		reporter:  r,
		limit:     prometheus.NewDesc("sluice_limiter_permits_limit", "The permit limit in force.", nil, labels),
		available: prometheus.NewDesc("sluice_limiter_permits_available", "Permits that could be taken now.", nil, labels),
		queued:    prometheus.NewDesc("sluice_limiter_permits_queued", "Permits that are waited for.", nil, labels),
		leases:    prometheus.NewDesc("sluice_limiter_leases_total", "Leases granted and rejected.", []string{"sluice_result"}, labels),
	}
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, l := range c {
		for _, d := range []*prometheus.Desc{l.limit, l.available, l.queued, l.leases} {
			to <- d
		}
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, l := range c {
		s, err := statistics(l.name, l.reporter)
		if err != nil {
			to <- prometheus.NewInvalidMetric(l.limit, err)
			continue
		}
		gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
		to <- prometheus.MustNewConstMetric(l.limit, gauge, float64(s.Limit))
		to <- prometheus.MustNewConstMetric(l.available, gauge, float64(s.Available))
		to <- prometheus.MustNewConstMetric(l.queued, gauge, float64(s.Queued))
		to <- prometheus.MustNewConstMetric(l.leases, counter, float64(s.Granted), "granted")
		to <- prometheus.MustNewConstMetric(l.leases, counter, float64(s.Rejected), "rejected")
	}
}

// statistics returns the statistics of a limiter, or an error if it is nil or panics.
func statistics(name string, l core.Reporter) (s core.Statistics, err error) {
	if anylimiter.IsNil(l) {
		return s, fmt.Errorf("prometheus: limiter %q is nil", name)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("prometheus: Statistics of limiter %q panicked: %v", name, p)
		}
	}()
	return l.Statistics(), nil
}
