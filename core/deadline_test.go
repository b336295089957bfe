package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestHopelessDeadlines(t *testing.T) {
	rates := map[string]func(t *testing.T) everything{
		"bucket": func(t *testing.T) everything {
			return bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 2, ReplenishmentPeriod: time.Second, QueueLimit: 9})
		},
		"fixed": func(t *testing.T) everything {
			return fixed(t, core.FixedWindowOptions{PermitLimit: 2, Window: time.Second, QueueLimit: 9})
		},
		"sliding": func(t *testing.T) everything {
			return sliding(t, core.SlidingWindowOptions{PermitLimit: 2, Window: time.Second, SegmentsPerWindow: 4, QueueLimit: 9})
		},
	}
	for name, build := range rates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := build(t)
				takes(t, l, 2)

				// Served after one second; the deadline is one nanosecond before, or after.
				a := acquiresWithin(t, l, 1, time.Second-1)
				a.rejected(t, "deadline too soon", time.Second)
				require.ErrorIs(t, a.err, context.DeadlineExceeded)
				b := acquiresWithin(t, l, 2, time.Second+1)
				b.waits(t)

				// Behind that one it is two seconds, for a probe too.
				acquiresWithin(t, l, 1, 2*time.Second-1).rejected(t, "deadline too soon", 2*time.Second)
				acquiresWithin(t, l, 0, 2*time.Second-1).rejected(t, "deadline too soon", 2*time.Second)
				probe := acquiresWithin(t, l, 0, 2*time.Second+1)
				counts(t, l, 2, 0, 2, 1, 3)
				time.Sleep(time.Second)
				b.granted(t)
				probe.waits(t)
				time.Sleep(time.Second)
				probe.granted(t)
			})
		})
	}
}

// Nobody knows when a concurrency limiter, or one replenished by hand, serves.
func TestNoDeadlineIsHopelessWithoutAClock(t *testing.T) {
	for name, build := range map[string]func(t *testing.T) everything{
		"concurrency": func(t *testing.T) everything { return concurrency(t, 2, 9) },
		"manual": func(t *testing.T) everything {
			return bucket(t, core.TokenBucketOptions{
				TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 9, ManualReplenishment: true,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := build(t)
				takes(t, l, 2)
				a := acquiresWithin(t, l, 1, time.Millisecond)
				a.waits(t)
				time.Sleep(time.Millisecond)
				a.fails(t, context.DeadlineExceeded)
				counts(t, l, 2, 0, 0, 1, 0)
			})
		})
	}
}
