package prometheus

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/httplimit"
)

// HTTP is the metrics of package httplimit: an [httplimit.Observer] for the options of any
// number of its Limits, and a collector to be registered once. Make it with [NewHTTP].
//
//	sluice_http_active_request_leases{sluice_http_policy}                          gauge
//	sluice_http_queued_requests{sluice_http_policy}                                gauge
//	sluice_http_request_time_in_queue_seconds{sluice_http_policy, sluice_http_result}  histogram, of requests that waited
//	sluice_http_request_lease_duration_seconds{sluice_http_policy}                 histogram
//	sluice_http_requests_total{sluice_http_policy, sluice_http_result}             counter
//
// The results are acquired, global_limiter, endpoint_limiter, request_canceled and failed.
// It is safe for concurrent use.
type HTTP struct {
	active, queued *prometheus.GaugeVec
	inQueue, held  *prometheus.HistogramVec
	requests       *prometheus.CounterVec

	mu       sync.Mutex                         // for a change of policies
	policies atomic.Pointer[map[string]*policy] // never changed, but replaced; as many as there are policies
}

// policy has the series of one, each made when there is something to count and looked for only once.
type policy struct {
	active, queued func() prometheus.Gauge
	held           func() prometheus.Observer
	results        [httplimit.Failed + 1]result
}

type result struct {
	requests func() prometheus.Counter
	inQueue  func() prometheus.Observer
}

// NewHTTP returns an HTTP that has counted nothing.
func NewHTTP() *HTTP {
	policy, result := []string{"sluice_http_policy"}, []string{"sluice_http_policy", "sluice_http_result"}
	return &HTTP{
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_http_active_request_leases", Help: "Requests that hold a lease.",
		}, policy),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_http_queued_requests", Help: "Requests that wait for a lease.",
		}, policy),
		inQueue: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_time_in_queue_seconds", Help: "How long requests waited for a lease.", Buckets: buckets(),
		}, result),
		held: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_lease_duration_seconds", Help: "How long requests held a lease.", Buckets: buckets(),
		}, policy),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests that asked for a lease.",
		}, result),
	}
}

// Queued implements [httplimit.Observer].
func (h *HTTP) Queued(_ context.Context, policy string, delta int) {
	h.of(policy).queued().Add(float64(delta))
}

// Decided implements [httplimit.Observer].
func (h *HTTP) Decided(_ context.Context, policy string, r httplimit.Result, waited time.Duration) {
	p := h.of(policy)
	var of result
	if int(r) < len(p.results) {
		of = p.results[r]
	} else {
		of = h.result(policy, r)
	}
	of.requests().Inc()
	if waited > 0 {
		of.inQueue().Observe(waited.Seconds())
	}
}

// Active implements [httplimit.Observer].
func (h *HTTP) Active(_ context.Context, policy string, delta int) {
	h.of(policy).active().Add(float64(delta))
}

// Released implements [httplimit.Observer].
func (h *HTTP) Released(_ context.Context, policy string, held time.Duration) {
	h.of(policy).held().Observe(held.Seconds())
}

// of returns the series of a policy.
func (h *HTTP) of(name string) *policy {
	if all := h.policies.Load(); all != nil {
		if p := (*all)[name]; p != nil {
			return p
		}
	}
	return h.ofSlow(name)
}

// ofSlow adds a policy that was not seen before.
func (h *HTTP) ofSlow(name string) *policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make(map[string]*policy)
	if all := h.policies.Load(); all != nil {
		if p := (*all)[name]; p != nil {
			return p
		}
		maps.Copy(next, *all)
	}
	label := valid(name)
	p := &policy{
		active: sync.OnceValue(func() prometheus.Gauge { return h.active.WithLabelValues(label) }),
		queued: sync.OnceValue(func() prometheus.Gauge { return h.queued.WithLabelValues(label) }),
		held:   sync.OnceValue(func() prometheus.Observer { return h.held.WithLabelValues(label) }),
	}
	for r := range p.results {
		p.results[r] = h.result(name, httplimit.Result(r)) //nolint:gosec // one of a few
	}
	next[name] = p
	h.policies.Store(&next)
	return p
}

// result returns the series of a policy's results of one kind.
func (h *HTTP) result(policy string, r httplimit.Result) result {
	label := valid(policy)
	return result{
		requests: sync.OnceValue(func() prometheus.Counter { return h.requests.WithLabelValues(label, r.String()) }),
		inQueue:  sync.OnceValue(func() prometheus.Observer { return h.inQueue.WithLabelValues(label, r.String()) }),
	}
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

// buckets are those of package telemetry: from 1 µs to 100 s, three each decade.
func buckets() []float64 {
	return []float64{
		1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
		0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
	}
}
