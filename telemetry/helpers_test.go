package telemetry_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

// sdkReader is OpenTelemetry's, read by hand.
type sdkReader struct {
	*sdk.ManualReader
	telemetry.Options
}

func newSDK(o ...sdk.ManualReaderOption) sdkReader {
	r := sdk.NewManualReader(o...)
	return sdkReader{r, telemetry.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(r))}}
}

// point is one series: a histogram has the sum and the count.
type point struct {
	value float64
	count uint64
}

// collect returns all series, as name{key=value,…}, and the metrics by name.
func (s sdkReader) collect(t *testing.T) (map[string]point, map[string]metricdata.Metrics) {
	t.Helper()
	points, all, err := s.read()
	require.NoError(t, err)
	return points, all
}

func (s sdkReader) read() (map[string]point, map[string]metricdata.Metrics, error) {
	var data metricdata.ResourceMetrics
	err := s.Collect(context.Background(), &data)
	points, all := make(map[string]point), make(map[string]metricdata.Metrics)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					points[series(m.Name, p.Attributes)] = point{value: float64(p.Value)}
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					points[series(m.Name, p.Attributes)] = point{value: float64(p.Value)}
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					points[series(m.Name, p.Attributes)] = point{p.Sum, p.Count}
				}
			}
		}
	}
	return points, all, err
}

func series(name string, a attribute.Set) string {
	var all []string
	for _, kv := range a.ToSlice() {
		all = append(all, string(kv.Key)+"="+kv.Value.AsString())
	}
	return name + "{" + strings.Join(all, ",") + "}"
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func concurrency(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "inner", PermitLimit: permits, QueueLimit: queue}))
}

func bucket(tb testing.TB, o core.TokenBucketOptions) *core.TokenBucket {
	tb.Helper()
	return core.Must(core.NewTokenBucket(o))
}

func instrument(tb testing.TB, o telemetry.Options, l core.Limiter) core.Limiter {
	tb.Helper()
	i, stop, err := telemetry.Instrument(o, "x", l)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, stop()) })
	return i
}

func rapid(tb testing.TB) core.Limiter {
	tb.Helper()
	return bucket(tb, core.TokenBucketOptions{TokenLimit: 1 << 16, TokensPerPeriod: 1 << 10, ReplenishmentPeriod: time.Microsecond})
}

// foreign is a third-party limiter.
type foreign struct{ core.Limiter }
