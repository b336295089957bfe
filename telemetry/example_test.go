package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	attr "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry"
)

func ExampleObserve() {
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2}))
	reader := metric.NewManualReader() // a server has an exporter here
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	stop := core.Must(telemetry.Observe(telemetry.Options{MeterProvider: provider}, "api", limiter))
	for range 3 {
		limiter.TryAcquire(1)
	}
	results(reader, "sluice.limiter.permits.limit", "sluice.limiter.name")
	results(reader, "sluice.limiter.leases", "sluice.result")
	fmt.Println(stop())
	// Unordered output:
	// api 2
	// granted 2
	// rejected 1
	// <nil>
}

func ExampleInstrument() {
	bucket := core.Must(core.NewTokenBucket(core.PerSecond(10, 10)))
	limiter, stop, err := telemetry.Instrument(telemetry.Options{}, "api", bucket)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease := limiter.TryAcquire(2) // instead of bucket.TryAcquire
	fmt.Println(lease.Acquired(), bucket.Available())
	lease.Release() // records for how long it was held
	fmt.Println(stop())
	// Output:
	// true 8
	// <nil>
}

// HTTP counts what the policies of a server decide.
func ExampleHTTP() {
	reader := metric.NewManualReader()
	observer := core.Must(telemetry.HTTP(telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}))
	one := core.Must(core.NewTokenBucket(core.Every(time.Hour, 1)))
	limits := core.Must(httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Limiter: httplimit.Shared(one)},
		Observer: observer, // telemetry.GRPC returns one for grpclimit.Options
	}))
	handler := limits.Handler(http.NotFoundHandler())
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	results(reader, "sluice.http.requests", "sluice.http.result")
	// Unordered output:
	// acquired 1
	// global_limiter 2
}

// GRPC is HTTP for gRPC calls.
func ExampleGRPC() {
	observer := core.Must(telemetry.GRPC(telemetry.Options{}))
	fmt.Println(observer != nil) // grpclimit.Options{Observer: observer}
	// Output: true
}

// Resilience counts the rejections of a strategy.
func ExampleResilience() {
	reader := metric.NewManualReader()
	count := core.Must(telemetry.Resilience(telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}))
	one := core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour}))
	strategy := core.Must(resilience.New(resilience.Options{Name: "database", Limiter: one, OnRejected: count}))
	for range 3 {
		_ = strategy.Do(context.Background(), func(context.Context) error { return nil })
	}
	results(reader, "sluice.resilience.events", "strategy.name")
	// Output: database 2
}

// Adaptive counts the changes of an adaptive limit by their reasons.
func ExampleAdaptive() {
	reader := metric.NewManualReader()
	changed := core.Must(telemetry.Adaptive(telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}, "database"))
	l := core.Must(adaptive.New(adaptive.Options{Initial: 10, OnChange: changed}))
	l.Drop(l.TryAcquire(1))
	results(reader, "sluice.adaptive.changes", "sluice.adaptive.reason")
	// Output: dropped 1
}

// Partitions counts keys in one series, however many there are.
func ExamplePartitions() {
	users := core.Must(partition.New(partition.Options[string, string]{
		Key: func(user string) string { return user },
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
	}))
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	stop := core.Must(telemetry.Partitions(telemetry.Options{MeterProvider: provider}, "users", users))
	for _, user := range []string{"ann", "bob", "ann"} {
		users.TryAcquire(user, 1)
	}
	results(reader, "sluice.partition.created", "sluice.limiter.name")
	fmt.Println(stop())
	// Output:
	// users 2
	// <nil>
}

// results prints a metric by one of its attributes.
func results(reader *metric.ManualReader, name, attribute string) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name != name {
			continue
		}
		var points []metricdata.DataPoint[int64]
		switch d := m.Data.(type) {
		case metricdata.Gauge[int64]:
			points = d.DataPoints
		case metricdata.Sum[int64]:
			points = d.DataPoints
		}
		for _, p := range points {
			value, _ := p.Attributes.Value(attr.Key(attribute))
			fmt.Println(value.AsString(), p.Value)
		}
	}
}
