package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

func TestAdaptive(t *testing.T) {
	reader := metric.NewManualReader()
	o := telemetry.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}
	changed := core.Must(telemetry.Adaptive(o, "api"))
	changed(adaptive.Change{Old: 10, New: 5, Reason: "trial", Latency: 20 * time.Millisecond})
	changed(adaptive.Change{Old: 5, New: 10, Reason: "trial over", Latency: 30 * time.Millisecond, Baseline: 10 * time.Millisecond})
	changed(adaptive.Change{Old: 10, New: 9, Reason: "dropped"}) // the gauges keep what is known

	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	gauges, reasons := map[string]float64{}, map[string]int64{}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Gauge[float64]:
			require.Len(t, data.DataPoints, 1)
			gauges[m.Name] = data.DataPoints[0].Value
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				reason, _ := p.Attributes.Value(attribute.Key("sluice.adaptive.reason"))
				reasons[reason.AsString()] = p.Value
			}
		}
	}
	require.Equal(t, map[string]float64{"sluice.adaptive.latency": 0.03, "sluice.adaptive.baseline": 0.01}, gauges)
	require.Equal(t, map[string]int64{"dropped": 1, "trial": 1, "trial over": 1}, reasons)
}
