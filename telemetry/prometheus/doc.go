// Package prometheus tells Prometheus what limiters do, by client_golang and without
// OpenTelemetry.
//
//	registry.MustRegister(prometheus.NewCollector(map[string]core.Reporter{"api": limiter}))
//
// [NewCollector] is for limiters, [NewHTTP] for package httplimit. The metrics are those of
// package telemetry in Prometheus' spelling, so that one dashboard shows both. Where
// OpenTelemetry is there already, its own exporter for Prometheus gives the same.
package prometheus
