package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// Adaptive reports the changes of adaptive limits. It is a collector to be registered once, for any number of limiters.
// Create it with [NewAdaptive].
//
//	sluice_adaptive_changes_total{sluice_limiter_name, sluice_adaptive_reason}  counter
//	sluice_adaptive_latency_seconds{sluice_limiter_name}                        gauge, of the sample that led to the last change
//	sluice_adaptive_baseline_seconds{sluice_limiter_name}                       gauge, the latency without load that is assumed
//
// The reason is [adaptive.Change].Reason, which names the phase of the algorithm. The algorithms of package adaptive have
// seven reasons; an Algorithm of your own has as many series as reasons. The gauges have no value until it is known. The
// limit itself is reported by [NewCollector].
//
// It is safe for concurrent use. Create it with [NewAdaptive]; the zero Adaptive cannot be used.
type Adaptive struct {
	collectors

	changes *prometheus.CounterVec
	times   []*prometheus.GaugeVec
}

// NewAdaptive returns a collector without limiters.
func NewAdaptive() *Adaptive {
	const name = "sluice_limiter_name"
	changes := prometheus.NewCounterVec(prometheus.CounterOpts(options(metrics.Changes, nil)), []string{name, "sluice_adaptive_reason"})
	a := &Adaptive{collectors: collectors{changes}, changes: changes}
	for _, of := range metrics.Adaptive {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts(options(of, nil)), []string{name})
		a.times, a.collectors = append(a.times, g), append(a.collectors, g)
	}
	return a
}

// OnChange returns the function for [adaptive.Options].OnChange of the limiter with that name.
func (a *Adaptive) OnChange(name string) func(adaptive.Change) {
	name = metrics.Label(name)
	return func(c adaptive.Change) {
		a.changes.WithLabelValues(name, metrics.Label(c.Reason)).Inc()
		for i, seconds := range metrics.OfChange(c) {
			if seconds > 0 {
				a.times[i].WithLabelValues(name).Set(seconds)
			}
		}
	}
}
