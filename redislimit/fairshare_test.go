package redislimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// The queue of one process cannot be fair to those that wait in others.
func TestFairShareIsRejected(t *testing.T) {
	for name, build := range map[string]func() error{
		"ConcurrencyLimiterOptions": func() error {
			_, err := redislimit.NewConcurrencyLimiter(redislimit.ConcurrencyLimiterOptions{
				ConcurrencyLimiterOptions: core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueOrder: core.FairShare},
			})
			return err
		},
		"TokenBucketOptions": func() error {
			_, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{TokenBucketOptions: core.TokenBucketOptions{
				TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueOrder: core.FairShare,
			}})
			return err
		},
		"FixedWindowOptions": func() error {
			_, err := redislimit.NewFixedWindow(redislimit.FixedWindowOptions{FixedWindowOptions: core.FixedWindowOptions{
				PermitLimit: 1, Window: time.Second, QueueOrder: core.FairShare,
			}})
			return err
		},
		"SlidingWindowOptions": func() error {
			_, err := redislimit.NewSlidingWindow(redislimit.SlidingWindowOptions{SlidingWindowOptions: core.SlidingWindowOptions{
				PermitLimit: 1, Window: time.Second, SegmentsPerWindow: 1, QueueOrder: core.FairShare,
			}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, build(), "redislimit: "+name+".QueueOrder = fair-share, want oldest-first or newest-first")
		})
	}
}
