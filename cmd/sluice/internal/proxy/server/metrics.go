package server

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	sluice "github.com/sluice-go/sluice/telemetry/prometheus"
)

// metrics are for Prometheus. There is a series for each policy, and never one for a key.
type metrics struct {
	*sluice.HTTP

	registry *prometheus.Registry
	answers  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// itself is the backend of responses that are the proxy's own.
const itself = "none"

func newMetrics() *metrics {
	m := &metrics{
		HTTP: sluice.NewHTTP(), registry: service.Metrics(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_proxy_responses_total", Help: "Responses by backend and status; 499: the client disconnected before the response.",
		}, []string{"backend", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_proxy_response_seconds", Help: "Time from a request to the end of its response, including waits for permits.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"backend"}),
	}
	m.registry.MustRegister(m.HTTP, m.answers, m.seconds)
	return m
}

// answered counts a request that has ended. How long a connection was upgraded is no time of a response.
func (m *metrics) answered(x *exchange) {
	backend := cmp.Or(x.backend, itself)
	m.answers.WithLabelValues(backend, strconv.Itoa(x.status)).Inc()
	if x.status != http.StatusSwitchingProtocols {
		m.seconds.WithLabelValues(backend).Observe(time.Since(x.start).Seconds())
	}
}

// watch adds the present state of the limits and of the backends of p.
func (m *metrics) watch(p *Proxy) { m.registry.MustRegister(collector{p}) }

// collector collects the state of the limits and of the backends.
type collector struct{ p *Proxy }

var upDesc = prometheus.NewDesc("sluice_proxy_backend_up", "1 if the backend accepts connections, otherwise 0.", []string{"backend"}, nil)

var redisDesc = prometheus.NewDesc("sluice_proxy_redis_up", "1: Redis decides; 0: it is unreachable or refuses.", nil, nil)

// Describe implements [prometheus.Collector]. It describes nothing, as the limits change with the file.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s collector) Collect(to chan<- prometheus.Metric) {
	s.p.state.Load().limits.Collect(to)
	if s.p.store != nil {
		decides := 1.0
		if s.p.redisDown.Load() {
			decides = 0
		}
		to <- prometheus.MustNewConstMetric(redisDesc, prometheus.GaugeValue, decides)
	}
	for name, takes := range s.p.backends.Up() {
		up := 0.0
		if takes {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, name)
	}
}
