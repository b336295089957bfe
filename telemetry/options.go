package telemetry

import (
	"slices"
	"strings"

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

func (o Options) meter() metric.Meter {
	if o.MeterProvider == nil {
		return otel.Meter(scope)
	}
	return o.MeterProvider.Meter(scope)
}

// with returns the attributes of a metric, as an option of its measurements. The metric's own
// attributes are strings. Strings that are not valid UTF-8 are corrected, because exporters reject
// them, and other metrics with them.
func (o Options) with(own ...attribute.KeyValue) metric.MeasurementOption {
	for i, kv := range own {
		own[i] = kv.Key.String(strings.ToValidUTF8(kv.Value.AsString(), "\uFFFD"))
	}
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(o.Attributes, own)...))
}

// counter returns a counter of whole numbers.
func counter(m metric.Meter, of metrics.Metric) (metric.Int64Counter, error) {
	return m.Int64Counter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Description))
}

// durations returns a histogram of seconds.
func durations(m metric.Meter, of metrics.Metric) (metric.Float64Histogram, error) {
	return m.Float64Histogram(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Description),
		metric.WithExplicitBucketBoundaries(metrics.Buckets()...))
}
