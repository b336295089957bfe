package telemetry_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

func ExampleObserve() {
	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	reader := metric.NewManualReader() // a server has an exporter here
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	stop, err := telemetry.Observe(telemetry.Options{MeterProvider: provider}, "api", limiter)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		limiter.TryAcquire(1)
	}
	show(reader)
	fmt.Println(stop())
	// Unordered output:
	// sluice.limiter.permits.limit 2
	// sluice.limiter.permits.available 0
	// sluice.limiter.permits.queued 0
	// sluice.limiter.leases granted 2
	// sluice.limiter.leases rejected 1
	// <nil>
}

func ExampleInstrument() {
	bucket, err := core.NewTokenBucket(core.PerSecond(10, 10))
	if err != nil {
		fmt.Println(err)
		return
	}
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

// show prints the metrics.
func show(reader *metric.ManualReader) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Gauge[int64]:
			for _, p := range d.DataPoints {
				fmt.Println(m.Name, p.Value)
			}
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				result, _ := p.Attributes.Value("sluice.result")
				fmt.Println(m.Name, result.AsString(), p.Value)
			}
		}
	}
}
