package prometheus

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// HTTP is an [httplimit.Observer] for the options of any number of [httplimit.Limits], and a
// collector to be registered once. Make it with [NewHTTP].
//
//	sluice_http_active_request_leases{sluice_http_policy}                              gauge
//	sluice_http_queued_requests{sluice_http_policy}                                    gauge
//	sluice_http_request_time_in_queue_seconds{sluice_http_policy, sluice_http_result}  histogram, of requests that waited
//	sluice_http_request_lease_duration_seconds{sluice_http_policy}                     histogram
//	sluice_http_requests_total{sluice_http_policy, sluice_http_result}                 counter
//
// The result is the text of an [httplimit.Result], such as acquired, global_limiter or shadowed.
// It is safe for concurrent use.
type HTTP struct {
	active, queued *prometheus.GaugeVec
	inQueue, held  *prometheus.HistogramVec
	requests       *prometheus.CounterVec
}

// NewHTTP returns an HTTP that has counted nothing.
func NewHTTP() *HTTP {
	m := metrics.OfServer("sluice.http", "request")
	policy, result := []string{"sluice_http_policy"}, []string{"sluice_http_policy", "sluice_http_result"}
	return &HTTP{
		active:   prometheus.NewGaugeVec(prometheus.GaugeOpts(options(m.Active)), policy),
		queued:   prometheus.NewGaugeVec(prometheus.GaugeOpts(options(m.Queued)), policy),
		inQueue:  histogram(m.InQueue, result),
		held:     histogram(m.Held, policy),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(options(m.Requests)), result),
	}
}

func options(m metrics.Metric) prometheus.Opts {
	return prometheus.Opts{Name: m.Prometheus(), Help: m.Description}
}

func histogram(m metrics.Metric, labels []string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Prometheus(), Help: m.Description, Buckets: metrics.Buckets()}, labels)
}

// Queued implements [httplimit.Observer].
func (h *HTTP) Queued(_ context.Context, policy string, delta int) {
	h.queued.WithLabelValues(valid(policy)).Add(float64(delta))
}

// Decided implements [httplimit.Observer].
func (h *HTTP) Decided(_ context.Context, policy string, r httplimit.Result, waited time.Duration) {
	h.requests.WithLabelValues(valid(policy), r.String()).Inc()
	if waited > 0 {
		h.inQueue.WithLabelValues(valid(policy), r.String()).Observe(waited.Seconds())
	}
}

// Active implements [httplimit.Observer].
func (h *HTTP) Active(_ context.Context, policy string, delta int) {
	h.active.WithLabelValues(valid(policy)).Add(float64(delta))
}

// Released implements [httplimit.Observer].
func (h *HTTP) Released(_ context.Context, policy string, held time.Duration) {
	h.held.WithLabelValues(valid(policy)).Observe(held.Seconds())
}

// Describe implements [prometheus.Collector].
func (h *HTTP) Describe(to chan<- *prometheus.Desc) {
	for _, c := range h.collectors() {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (h *HTTP) Collect(to chan<- prometheus.Metric) {
	for _, c := range h.collectors() {
		c.Collect(to)
	}
}

func (h *HTTP) collectors() []prometheus.Collector {
	return []prometheus.Collector{h.active, h.queued, h.inQueue, h.held, h.requests}
}

// valid returns a text as a label may hold it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
