package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	sluice "github.com/sluice-go/sluice/telemetry/prometheus"
)

// metrics are for Prometheus. There is a series for each policy, and never one for a key.
type metrics struct {
	*sluice.HTTP

	registry *prometheus.Registry
	answers  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// itself is the backend of answers that are the proxy's own.
const itself = "none"

func newMetrics() *metrics {
	m := &metrics{
		HTTP: sluice.NewHTTP(), registry: prometheus.NewRegistry(),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_proxy_answers_total", Help: "Answers by backend and status; 499: the client left before.",
		}, []string{"backend", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_proxy_answer_seconds", Help: "Time from a request to the end of its answer, waits for permits included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"backend"}),
	}
	m.registry.MustRegister(m.HTTP, m.answers, m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// answered counts a request that has ended. How long a connection was upgraded is no time of an answer.
func (m *metrics) answered(v *visit) {
	backend := v.backend
	if backend == "" {
		backend = itself
	}
	m.answers.WithLabelValues(backend, strconv.Itoa(v.status)).Inc()
	if v.status != http.StatusSwitchingProtocols {
		m.seconds.WithLabelValues(backend).Observe(time.Since(v.began).Seconds())
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// watch adds the present state of the limits of p.
func (m *metrics) watch(p *proxy) { m.registry.MustRegister(standing{p}) }

// standing collects the state of the limits and of the backends.
type standing struct{ p *proxy }

var (
	liveDesc       = describe("sluice_partition_live", "Keys that have a limiter now.")
	createdDesc    = describe("sluice_partition_created_total", "Limiters made for keys.")
	droppedDesc    = describe("sluice_partition_dropped_total", "Limiters of keys dropped for idleness.")
	overflowedDesc = describe("sluice_partition_overflowed_total", "Requests whose key found no room.")
)

var upDesc = prometheus.NewDesc("sluice_proxy_backend_up", "1: the backend takes connections; 0: it did not.", []string{"backend"}, nil)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"sluice_limiter_name"}, nil)
}

// Describe implements [prometheus.Collector]. It describes nothing, as the limits change with the file.
func (standing) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (s standing) Collect(to chan<- prometheus.Metric) {
	state := s.p.state.Load()
	all := make(map[string]*limit)
	for _, p := range state.policies {
		for _, l := range p.all() {
			all[p.label(l)] = l
		}
		if c, ok := p.overrideCounts(); ok {
			collectCounts(to, c, p.Name+"/overrides")
		}
	}
	for _, l := range state.doors {
		all["listen/"+l.id.policy] = l
	}
	shared := make(map[string]core.Reporter)
	for label, l := range all {
		switch {
		case l.one != nil:
			shared[label] = l.one
		case l.count != nil:
			collectCounts(to, l.count(), label)
		}
	}
	sluice.NewCollector(shared).Collect(to)
	for name, takes := range s.p.backends.States() {
		up := 0.0
		if takes {
			up = 1
		}
		to <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, name)
	}
}

func collectCounts(to chan<- prometheus.Metric, c partition.Counts, label string) {
	to <- prometheus.MustNewConstMetric(liveDesc, prometheus.GaugeValue, float64(c.Live), label)
	to <- prometheus.MustNewConstMetric(createdDesc, prometheus.CounterValue, float64(c.Created), label)
	to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(c.Dropped), label)
	to <- prometheus.MustNewConstMetric(overflowedDesc, prometheus.CounterValue, float64(c.Overflowed), label)
}
