package core_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
)

func BenchmarkTryAcquire(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.TryAcquire(1).Release()
			}
		})
	}
}

func BenchmarkTryAcquireParallel(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.TryAcquire(1).Release()
				}
			})
		})
	}
}

func BenchmarkRefused(b *testing.B) {
	for name, l := range empty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.TryAcquire(1)
			}
		})
	}
}

func BenchmarkAcquire(b *testing.B) {
	for name, l := range plenty(b) {
		b.Run("limiter="+name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				lease.Release()
			}
		})
	}
}

// BenchmarkQueue has more callers than permits: most grants go through the queue.
func BenchmarkQueue(b *testing.B) {
	for name, l := range map[string]core.Limiter{
		"concurrency": concurrency(b, 1, 1<<20),
		"bucket": bucket(b, core.TokenBucketOptions{
			TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Microsecond, QueueLimit: 1 << 20,
		}),
		"fixed": fixed(b, core.FixedWindowOptions{PermitLimit: 10, Window: time.Microsecond, QueueLimit: 1 << 20}),
	} {
		b.Run("limiter="+name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					lease, err := l.Acquire(ctx, 1)
					if err != nil {
						b.Error(err)
						return
					}
					lease.Release()
				}
			})
		})
	}
}
