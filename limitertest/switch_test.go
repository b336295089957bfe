package limitertest_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// A Switch is like the limiter in it, also after an exchange.
func TestSwitch(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst, core.FairShare} {
		t.Run("concurrency/"+order.String(), func(t *testing.T) {
			limitertest.Run(t, limitertest.Config{
				Limit: 5, QueueLimit: 7, QueueOrder: order,
				New: func() core.Limiter {
					s := core.NewSwitch(core.Blocked())
					s.Set(core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
						PermitLimit: 5, QueueLimit: 7, QueueOrder: order,
					})))
					return s
				},
			})
		})
		t.Run("bucket/"+order.String(), func(t *testing.T) {
			limitertest.Run(t, limitertest.Config{
				Limit: 5, QueueLimit: 7, QueueOrder: order, Refill: 5 * time.Second,
				New: func() core.Limiter {
					return core.NewSwitch(core.Must(core.NewTokenBucket(core.TokenBucketOptions{
						TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 7, QueueOrder: order,
					})))
				},
			})
		})
	}
}
