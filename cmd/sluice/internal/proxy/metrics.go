package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/httplimit"
)

// metrics are what is counted, for Prometheus, under the names that package telemetry has. There is a series for each
// policy, and never one for a key.
type metrics struct {
	registry *prometheus.Registry
	active   *prometheus.GaugeVec
	queued   *prometheus.GaugeVec
	waited   *prometheus.HistogramVec
	held     *prometheus.HistogramVec
	requests *prometheus.CounterVec
}

const (
	policyLabel = "sluice_http_policy"
	resultLabel = "sluice_http_result"
)

func newMetrics() *metrics {
	buckets := prometheus.ExponentialBucketsRange(1e-6, 100, 25)
	m := &metrics{
		registry: prometheus.NewRegistry(),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_http_active_request_leases", Help: "Requests that hold a lease now.",
		}, []string{policyLabel}),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_http_queued_requests", Help: "Requests that wait for permits now.",
		}, []string{policyLabel}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_time_in_queue_seconds", Help: "How long requests waited for permits.", Buckets: buckets,
		}, []string{policyLabel, resultLabel}),
		held: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_lease_duration_seconds", Help: "How long requests held their leases.", Buckets: buckets,
		}, []string{policyLabel}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests that were decided about.",
		}, []string{policyLabel, resultLabel}),
	}
	m.registry.MustRegister(m.active, m.queued, m.waited, m.held, m.requests,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Queued implements [httplimit.Observer].
func (m *metrics) Queued(_ context.Context, policy string, delta int) {
	m.queued.WithLabelValues(policy).Add(float64(delta))
}

// Decided implements [httplimit.Observer].
func (m *metrics) Decided(_ context.Context, policy string, r httplimit.Result, waited time.Duration) {
	result := r.String()
	m.requests.WithLabelValues(policy, result).Inc()
	m.waited.WithLabelValues(policy, result).Observe(waited.Seconds())
}

// Active implements [httplimit.Observer].
func (m *metrics) Active(_ context.Context, policy string, delta int) {
	m.active.WithLabelValues(policy).Add(float64(delta))
}

// Released implements [httplimit.Observer].
func (m *metrics) Released(_ context.Context, policy string, held time.Duration) {
	m.held.WithLabelValues(policy).Observe(held.Seconds())
}

// watch lets the metrics tell how the limits of p stand when they are asked.
func (m *metrics) watch(p *proxy) { m.registry.MustRegister(standing{p}) }

// standing tells how the limits stand.
type standing struct{ p *proxy }

const limiterLabel = "sluice_limiter_name"

var (
	limitDesc      = describe("sluice_limiter_permits_limit", "Permits that there are.")
	availableDesc  = describe("sluice_limiter_permits_available", "Permits that could be taken now.")
	queuedDesc     = describe("sluice_limiter_permits_queued", "Permits that are waited for.")
	leasesDesc     = describe("sluice_limiter_leases_total", "Leases granted and rejected.", "sluice_result")
	liveDesc       = describe("sluice_partition_live", "Keys that have a limiter now.")
	createdDesc    = describe("sluice_partition_created_total", "Limiters made for keys.")
	droppedDesc    = describe("sluice_partition_dropped_total", "Limiters of keys dropped for idleness.")
	overflowedDesc = describe("sluice_partition_overflowed_total", "Requests whose key found no room.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{limiterLabel}, labels...), nil)
}

// Describe implements [prometheus.Collector].
func (s standing) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{limitDesc, availableDesc, queuedDesc, leasesDesc, liveDesc, createdDesc, droppedDesc, overflowedDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (s standing) Collect(to chan<- prometheus.Metric) {
	for _, l := range s.p.state.Load().limits {
		name := l.name
		gauge := func(d *prometheus.Desc, v int) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), name)
		}
		count := func(d *prometheus.Desc, v uint64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{name}, more...)...)
		}
		if l.one != nil {
			st := l.one.Statistics()
			gauge(limitDesc, st.Limit)
			gauge(availableDesc, st.Available)
			gauge(queuedDesc, st.Queued)
			count(leasesDesc, st.Granted, "granted")
			count(leasesDesc, st.Rejected, "rejected")
		}
		if l.count != nil {
			c := l.count()
			gauge(liveDesc, c.Live)
			count(createdDesc, c.Created)
			count(droppedDesc, c.Dropped)
			count(overflowedDesc, c.Overflowed)
		}
	}
}
