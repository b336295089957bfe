package prometheus

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// HTTP is an [httplimit.Observer] for the options of any number of [httplimit.Limits], or of
// grpclimit's, and a collector to be registered once. Create it with [NewHTTP] or [NewGRPC].
//
//	sluice_http_active_request_leases{sluice_http_policy}                              gauge
//	sluice_http_queued_requests{sluice_http_policy}                                    gauge
//	sluice_http_request_time_in_queue_seconds{sluice_http_policy, sluice_http_result}  histogram, of requests that waited
//	sluice_http_request_lease_duration_seconds{sluice_http_policy}                     histogram
//	sluice_http_requests_total{sluice_http_policy, sluice_http_result}                 counter
//
// The result is the text of an [httplimit.Result], such as acquired, global_limiter or shadowed.
// It is safe for concurrent use. Create it with [NewHTTP]; the zero HTTP cannot be used.
type HTTP struct {
	collectors

	active, queued *prometheus.GaugeVec
	inQueue, held  *prometheus.HistogramVec
	requests       *prometheus.CounterVec
}

// NewHTTP returns an observer for package httplimit.
func NewHTTP() *HTTP { return newHTTP("sluice.http", "request", nil) }

// NewGRPC returns an observer for package grpclimit. Its metrics are those of telemetry.GRPC: they
// start with sluice_rpc_ instead of sluice_http_, count calls instead of requests, and have the
// label rpc_system_name="grpc".
func NewGRPC() *HTTP {
	return newHTTP("sluice.rpc", "call", prometheus.Labels{"rpc_system_name": "grpc"})
}

// newHTTP returns an observer whose metrics start with space and count things, such as requests.
func newHTTP(space, thing string, labels prometheus.Labels) *HTTP {
	m := metrics.OfServer(space, thing)
	prefix := strings.ReplaceAll(space, ".", "_")
	policy, result := []string{prefix + "_policy"}, []string{prefix + "_policy", prefix + "_result"}
	histogram := func(m metrics.Metric, names []string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: m.Prometheus(), Help: m.Description, ConstLabels: labels, Buckets: metrics.Buckets(),
		}, names)
	}
	h := &HTTP{
		active:   prometheus.NewGaugeVec(prometheus.GaugeOpts(options(m.Active, labels)), policy),
		queued:   prometheus.NewGaugeVec(prometheus.GaugeOpts(options(m.Queued, labels)), policy),
		inQueue:  histogram(m.InQueue, result),
		held:     histogram(m.Held, policy),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(options(m.Requests, labels)), result),
	}
	h.collectors = collectors{h.active, h.queued, h.inQueue, h.held, h.requests}
	return h
}

// Queued implements [httplimit.Observer].
func (h *HTTP) Queued(_ context.Context, policy string, delta int) {
	h.queued.WithLabelValues(metrics.Label(policy)).Add(float64(delta))
}

// Decided implements [httplimit.Observer].
func (h *HTTP) Decided(_ context.Context, policy string, r httplimit.Result, waited time.Duration) {
	h.requests.WithLabelValues(metrics.Label(policy), r.String()).Inc()
	if waited > 0 {
		h.inQueue.WithLabelValues(metrics.Label(policy), r.String()).Observe(waited.Seconds())
	}
}

// Active implements [httplimit.Observer].
func (h *HTTP) Active(_ context.Context, policy string, delta int) {
	h.active.WithLabelValues(metrics.Label(policy)).Add(float64(delta))
}

// Released implements [httplimit.Observer].
func (h *HTTP) Released(_ context.Context, policy string, held time.Duration) {
	h.held.WithLabelValues(metrics.Label(policy)).Observe(held.Seconds())
}

func options(m metrics.Metric, labels prometheus.Labels) prometheus.Opts {
	return prometheus.Opts{Name: m.Prometheus(), Help: m.Description, ConstLabels: labels}
}

// collectors are collected as one.
type collectors []prometheus.Collector

// Describe implements [prometheus.Collector].
func (all collectors) Describe(to chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (all collectors) Collect(to chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(to)
	}
}
