// Package prometheus reports what limiters do to Prometheus, with client_golang and without
// OpenTelemetry.
//
//	registry.MustRegister(prometheus.NewCollector(map[string]core.Reporter{"api": limiter}))
//
// [NewCollector] is for limiters, [NewPartitions] for maps of limiters, [NewHTTP] for package httplimit,
// [NewGRPC] for package grpclimit, and [NewAdaptive] for package adaptive.
// The metrics are those of package telemetry in Prometheus' spelling, so that one dashboard shows both. A
// program that uses OpenTelemetry already gets the same metrics from OpenTelemetry's exporter for
// Prometheus.
package prometheus
