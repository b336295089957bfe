package telemetry

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

const (
	scope       = "github.com/sluice-go/sluice/telemetry"
	limiterName = attribute.Key("sluice.limiter.name")
	result      = attribute.Key("sluice.result")    // granted, rejected, shadowed
	priority    = attribute.Key("sluice.priority")  // priority of the flow that waited
	direction   = attribute.Key("sluice.direction") // up, down
)

// Options are the destination of metrics and their attributes. The zero value is usable.
type Options struct {
	MeterProvider metric.MeterProvider // nil means the global one, [otel.GetMeterProvider]
	Attributes    []attribute.KeyValue // added to every metric; the metric's own attributes take precedence
}

// instruments makes the instruments of the options' meter. It copies the attributes, because measurements read them later.
func (o *Options) instruments() *instruments {
	o.Attributes = slices.Clone(o.Attributes)
	if o.MeterProvider == nil {
		return &instruments{Meter: otel.Meter(scope)}
	}
	return &instruments{Meter: o.MeterProvider.Meter(scope)}
}

// with returns the attributes of a metric, as an option of its measurements. The metric's own
// attributes are strings.
func (o Options) with(own ...attribute.KeyValue) metric.MeasurementOption {
	for i, kv := range own {
		own[i] = kv.Key.String(metrics.Label(kv.Value.AsString()))
	}
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(o.Attributes, own)...))
}

// instruments makes instruments, and joins their errors.
type instruments struct {
	metric.Meter

	err error
}

// instrument makes an instrument by a method of [metric.Meter], whose options are of type O.
func instrument[I, O any](m *instruments, create func(metric.Meter, string, ...O) (I, error), of metrics.Metric, more ...O) I {
	unit, description := metric.WithUnit(of.Unit), metric.WithDescription(of.Description) // options of all instruments
	i, err := create(m.Meter, of.Name, append(more, any(unit).(O), any(description).(O))...)
	m.err = errors.Join(m.err, err)
	return i
}

func (m *instruments) counter(of metrics.Metric) metric.Int64Counter {
	return instrument(m, metric.Meter.Int64Counter, of)
}

// durations returns a histogram of seconds.
func (m *instruments) durations(of metrics.Metric) metric.Float64Histogram {
	buckets := metric.WithExplicitBucketBoundaries(metrics.Buckets()...)
	return instrument[metric.Float64Histogram, metric.Float64HistogramOption](m, metric.Meter.Float64Histogram, of, buckets)
}
