package telemetry_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

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
