package bench

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
)

// BenchmarkSettle grants 3 permits, settles them to 2, and refunds those, by a limiter, by a chain, and by a chain behind
// a Switch. Each of them is settled by who granted it.
func BenchmarkSettle(b *testing.B) {
	const limit = 1 << 20
	bucket := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: 1000, ReplenishmentPeriod: time.Millisecond,
	}))
	slots := newConcurrency(b, limit)
	chain := core.Must(core.Chain(slots, bucket))
	for _, k := range []struct {
		name    string
		limiter core.Limiter
	}{
		{"concurrency", slots}, {"bucket", bucket}, {"chain", chain}, {"switch", core.NewSwitch(slots)}, {"switch-chain", core.NewSwitch(chain)},
	} {
		b.Run("limiter="+k.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease := k.limiter.TryAcquire(3)
				lease = lease.Settle(2)
				lease.Refund()
			}
		})
	}
}
