package telemetry_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

func bucket() core.Limiter {
	l, err := core.NewTokenBucket(core.TokenBucketOptions{Name: "b", TokenLimit: 1 << 16, TokensPerPeriod: 1 << 10, ReplenishmentPeriod: time.Microsecond})
	if err != nil {
		panic(err)
	}
	return l
}

type other struct{ core.Limiter }

func BenchmarkInstrument(b *testing.B) {
	for name, l := range map[string]core.Limiter{"bucket": bucket(), "foreign": other{bucket()}, "unlimited": core.Unlimited()} {
		i, _, err := telemetry.Instrument(telemetry.Options{MeterProvider: metric.NewMeterProvider()}, "x", l)
		if err != nil {
			b.Fatal(err)
		}
		for impl, l := range map[string]core.Limiter{"bare": l, "instrumented": i} {
			b.Run(name+"/impl="+impl+"/try", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					l.TryAcquire(1).Release()
				}
			})
			b.Run(name+"/impl="+impl+"/acquire", func(b *testing.B) {
				b.ReportAllocs()
				ctx := b.Context()
				for b.Loop() {
					k, _ := l.Acquire(ctx, 1)
					k.Release()
				}
			})
		}
	}
}
