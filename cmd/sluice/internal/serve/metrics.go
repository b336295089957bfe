package serve

import (
	"context"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

// metrics are for Prometheus. There are series per rule. There are series per value only for rules with detailed_metric or
// value_to_metric.
type metrics struct {
	registry        *prometheus.Registry
	service         *rlslimit.Service
	inFlight        atomic.Int64
	seconds         prometheus.Histogram
	ok, over, wrong prometheus.Counter
	gone            prometheus.Counter // calls that the client canceled, or whose deadline passed
	reloads         *prometheus.CounterVec
}

func newMetrics(s *rlslimit.Service) *metrics {
	responses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_rls_responses_total", Help: "Calls by result: ok, over_limit, canceled if the client gave up, or error for an invalid call.",
	}, []string{"result"})
	m := &metrics{
		registry: service.Metrics(),
		service:  s,
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_rls_response_seconds", Help: "Time from a call to its response.",
			Buckets: []float64{.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, 1},
		}),
		ok:    responses.WithLabelValues("ok"),
		over:  responses.WithLabelValues("over_limit"),
		wrong: responses.WithLabelValues("error"),
		gone:  responses.WithLabelValues("canceled"),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_rls_reloads_total", Help: "Reloads of the files by result: ok, or bad if they had errors and nothing changed.",
		}, []string{"result"}),
	}
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("bad")
	m.registry.MustRegister(responses, m.seconds, m.reloads, rules{s})
	return m
}

func (m *metrics) reloaded(err error) {
	result := "ok"
	if err != nil {
		result = "bad"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// observe is an interceptor that counts responses.
func (m *metrics) observe(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, ours := req.(*ratelimit.RateLimitRequest); !ours {
		return handler(ctx, req)
	}
	start := time.Now()
	m.inFlight.Add(1)
	defer m.inFlight.Add(-1)
	response, err := handler(ctx, req)
	m.seconds.Observe(time.Since(start).Seconds())
	r, _ := response.(*ratelimit.RateLimitResponse)
	switch {
	case err != nil && ctx.Err() != nil:
		m.gone.Inc()
	case err != nil:
		m.wrong.Inc()
	case r.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT:
		m.over.Inc()
	default:
		m.ok.Inc()
	}
	return response, err
}

// rules collects the counts of the rules.
type rules struct{ service *rlslimit.Service }

var (
	hitsDesc = prometheus.NewDesc("sluice_rls_hits_total",
		"Hits by rule and result: granted, rejected, shadowed (over the limit, but let through) or returned.", []string{"domain", "rule", "result"}, nil)
	undecidedDesc = prometheus.NewDesc("sluice_rls_undecided_total",
		"Descriptors of a rule that fail-open decided, because Redis did not.", []string{"domain", "rule"}, nil)
	unmatchedDesc = prometheus.NewDesc("sluice_rls_unmatched_total",
		"Descriptors that passed because no rule matches them, by domain; the domain is empty for those of domains that no file has.", []string{"domain"}, nil)
	limitersDesc = prometheus.NewDesc("sluice_rls_limiters",
		"Limiters of a rule.", []string{"domain", "rule"}, nil)
	overflowedDesc = prometheus.NewDesc("sluice_rls_overflowed_total",
		"Descriptors of a rule that shared a limiter with other values, because the rule has keys values already.", []string{"domain", "rule"}, nil)
)

// Describe implements [prometheus.Collector].
func (rules) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{hitsDesc, undecidedDesc, unmatchedDesc, limitersDesc, overflowedDesc} {
		c <- d
	}
}

// Collect implements [prometheus.Collector].
func (s rules) Collect(c chan<- prometheus.Metric) {
	type name struct{ domain, rule string }
	counts := make(map[name]rlslimit.Counts)
	for _, r := range s.service.Rules() {
		counts[name{r.Domain, r.Name}] = sum(counts[name{r.Domain, r.Name}], r.Counts)
		for detail, of := range r.Details {
			counts[name{r.Domain, detail}] = sum(counts[name{r.Domain, detail}], of)
		}
	}
	for at, n := range counts {
		for result, n := range map[string]uint64{"granted": n.Granted, "rejected": n.Rejected, "shadowed": n.Shadowed, "returned": n.Returned} {
			c <- prometheus.MustNewConstMetric(hitsDesc, prometheus.CounterValue, float64(n), at.domain, at.rule, result)
		}
		c <- prometheus.MustNewConstMetric(undecidedDesc, prometheus.CounterValue, float64(n.Undecided), at.domain, at.rule)
	}
	for domain, n := range s.service.Unmatched() {
		c <- prometheus.MustNewConstMetric(unmatchedDesc, prometheus.CounterValue, float64(n), domain)
	}
	for _, r := range s.byName() {
		c <- prometheus.MustNewConstMetric(limitersDesc, prometheus.GaugeValue, float64(r.Keys), r.Domain, r.Name)
		c <- prometheus.MustNewConstMetric(overflowedDesc, prometheus.CounterValue, float64(r.Overflowed), r.Domain, r.Name)
	}
}

func sum(a, b rlslimit.Counts) rlslimit.Counts {
	return rlslimit.Counts{
		Granted: a.Granted + b.Granted, Rejected: a.Rejected + b.Rejected, Shadowed: a.Shadowed + b.Shadowed,
		Returned: a.Returned + b.Returned, Undecided: a.Undecided + b.Undecided,
	}
}
