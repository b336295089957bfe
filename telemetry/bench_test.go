package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

func rapid(tb testing.TB) core.Limiter {
	tb.Helper()
	return bucket(tb, core.TokenBucketOptions{TokenLimit: 1 << 16, TokensPerPeriod: 1 << 10, ReplenishmentPeriod: time.Microsecond})
}

// foreign is a third-party limiter.
type foreign struct{ core.Limiter }

func acquireAndRelease(b *testing.B, l core.Limiter) {
	b.Helper()
	b.ReportAllocs()
	ctx := b.Context()
	for b.Loop() {
		lease, _ := l.Acquire(ctx, 1)
		lease.Release()
	}
}

// BenchmarkInstrument has beside it what a histogram's Record costs, and what otelhttp does.
func BenchmarkInstrument(b *testing.B) {
	for _, c := range []struct {
		name string
		core.Limiter
	}{{"bucket", rapid(b)}, {"concurrency", concurrency(b, 10, 10)}, {"foreign", foreign{rapid(b)}}} {
		b.Run("limiter="+c.name+"/impl=bare", func(b *testing.B) { acquireAndRelease(b, c.Limiter) })
		b.Run("limiter="+c.name+"/impl=instrumented", func(b *testing.B) {
			acquireAndRelease(b, instrument(b, telemetry.Options{MeterProvider: noop.NewMeterProvider()}, c.Limiter))
		})
		b.Run("limiter="+c.name+"/impl=recorded", func(b *testing.B) {
			acquireAndRelease(b, instrument(b, newSDK().Options, c.Limiter))
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	h, err := provider.Meter("x").Float64Histogram("x")
	require.NoError(b, err)
	with := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
		attribute.String("sluice.limiter.name", "x"), attribute.String("sluice.result", "granted")))}
	b.ReportAllocs()
	for b.Loop() {
		h.Record(b.Context(), 1e-6, with...)
	}
}

func BenchmarkOtelhttp(b *testing.B) {
	plain := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, h := range map[string]http.Handler{
		"bare":     plain,
		"otelhttp": otelhttp.NewHandler(plain, "x", otelhttp.WithMeterProvider(newSDK().MeterProvider)),
	} {
		b.Run("impl="+name, func(b *testing.B) {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
