package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	scope       = "github.com/sluice-go/sluice/telemetry"
	limiterName = attribute.Key("sluice.limiter.name")
	result      = attribute.Key("sluice.result")
	granted     = "granted"
	rejected    = "rejected"
)

// Options say where metrics go.
type Options struct {
	MeterProvider metric.MeterProvider // nil: the global one, [otel.GetMeterProvider]
	Attributes    []attribute.KeyValue // of every metric, beside its own, which win
}

func (o Options) provider() metric.MeterProvider {
	if o.MeterProvider == nil {
		return otel.GetMeterProvider()
	}
	return o.MeterProvider
}

func (o Options) meter() metric.Meter { return o.provider().Meter(scope) }

// set returns the attributes of a metric.
func (o Options) set(own ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(slices.Concat(o.Attributes, own)...)
}

// with returns the attributes as an option of a measurement, made once for many.
func (o Options) with(own ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(o.set(own...))
}

// durations returns a histogram of seconds.
func durations(m metric.Meter, name, description string) (metric.Float64Histogram, error) {
	return m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(buckets()...))
}

// buckets are the upper bounds of durations, in seconds: three each decade.
func buckets() []float64 {
	return []float64{
		1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
		0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
	}
}
