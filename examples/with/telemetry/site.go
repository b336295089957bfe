package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry"
)

const (
	connections = 2   // connections to the database; 4 more requests may wait
	waiting     = 4   //
	perClient   = 20  // requests per second and client, with bursts of 4
	atOnce      = 100 // requests
)

// newSite returns a handler with a limited API, and with the limits' metrics on /metrics.
// stop shuts down the metrics.
func newSite() (h http.Handler, stop func(context.Context) error, err error) {
	registry := client.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	o := telemetry.Options{MeterProvider: provider}

	database, err := newDatabase(o)
	if err != nil {
		return nil, nil, err
	}
	limits, err := newLimits(o)
	if err != nil {
		return nil, nil, err
	}
	limited := http.NewServeMux()
	limited.Handle("GET /api", limits.Policy("api")(query(database)))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // not limited
	mux.Handle("/", limits.Handler(limited))
	return mux, provider.Shutdown, nil // Shutdown also ends the instruments registered with the provider
}

// newLimits makes a limit for all requests and one per client.
func newLimits(o telemetry.Options) (*httplimit.Limits, error) {
	all, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "all", PermitLimit: atOnce})
	if err != nil {
		return nil, err
	}
	clients, err := partition.New(partition.Options[*http.Request, string]{
		Name:          "clients",
		Key:           httplimit.ByHeader("X-Api-Key"),
		New:           func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(perClient, perClient/5)) },
		MaxPartitions: 1000,
	})
	if err != nil {
		return nil, err
	}
	_, err = telemetry.Observe(o, "all", all)
	_, err2 := telemetry.Partitions(o, "clients", clients)
	observer, err3 := telemetry.HTTP(o)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Name: "all", Limiter: partition.Shared[*http.Request](all)},
		Policies: []httplimit.Policy{{Name: "api", Limiter: clients, MaxWait: 30 * time.Millisecond}},
		Observer: observer,
	})
}

// newDatabase returns a strategy that runs queries. Some of them wait, and some are rejected.
func newDatabase(o telemetry.Options) (*resilience.Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "database", PermitLimit: connections, QueueLimit: waiting})
	if err != nil {
		return nil, err
	}
	timed, _, err := telemetry.Instrument(o, "database", l)
	if err != nil {
		return nil, err
	}
	events, err := telemetry.Resilience(o)
	if err != nil {
		return nil, err
	}
	return resilience.New(resilience.Options{Name: "database", Limiter: timed, OnRejected: events})
}

// query handles a request that needs the database.
func query(database *resilience.Strategy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := database.Do(r.Context(), func(ctx context.Context) error { return work(ctx, 15*time.Millisecond) })
		if err != nil {
			http.Error(w, "the database is busy", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "rows")
	})
}

// work simulates a query.
func work(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
