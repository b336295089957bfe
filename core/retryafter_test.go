package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// RetryAfter is exact: the try it names succeeds, the one a nanosecond before it fails.
func TestTheRetryItNamesSucceeds(t *testing.T) {
	for name, build := range map[string]func(t *testing.T) everything{
		"bucket": func(t *testing.T) everything {
			return bucket(t, core.TokenBucketOptions{TokenLimit: 7, TokensPerPeriod: 2, ReplenishmentPeriod: 13})
		},
		"fixed": func(t *testing.T) everything {
			return fixed(t, core.FixedWindowOptions{PermitLimit: 7, Window: 31})
		},
		"sliding": func(t *testing.T) everything {
			return sliding(t, core.SlidingWindowOptions{PermitLimit: 7, Window: 31, SegmentsPerWindow: 5})
		},
	} {
		for permits := range 8 {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := build(t)
					takes(t, l, 3)
					time.Sleep(8)
					takes(t, l, l.Available())
					time.Sleep(3)
					d, ok := core.RetryAfter.From(l.TryAcquire(permits))
					require.True(t, ok)
					require.Positive(t, d)
					time.Sleep(d - 1)
					if d > 1 {
						rejected(t, l, permits, 1)
					}
					time.Sleep(1)
					takes(t, l, permits)
				})
			})
		}
	}
}

func TestRetryAfterCountsTheQueueAhead(t *testing.T) {
	o := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20}
	t.Run("oldest first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := bucket(t, o)
			takes(t, l, 10)
			a := queues(t, l, 4)
			queues(t, l, 6)
			rejected(t, l, 1, 11*time.Second)
			rejected(t, l, 10, 20*time.Second)
			rejected(t, l, 0, time.Second) // the first can not use it yet
			a.cancelled(t)
			rejected(t, l, 1, 7*time.Second)
			time.Sleep(1500 * time.Millisecond)
			rejected(t, l, 1, 5500*time.Millisecond)
			require.True(t, l.TryAcquire(0).Acquired(), "one is available, though it is kept for the queue")
		})
	})
	t.Run("newest first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o.QueueOrder = core.NewestFirst
			l := bucket(t, o)
			takes(t, l, 10)
			queues(t, l, 4)
			queues(t, l, 6)
			rejected(t, l, 1, time.Second)
			rejected(t, l, 10, 10*time.Second)
		})
	})
}

// A probe succeeds when a permit is left that the head of the queue can't use, or when
// the queue has been served.
func TestRetryAfterOfAProbe(t *testing.T) {
	for _, order := range []core.QueueOrder{core.OldestFirst, core.NewestFirst} {
		t.Run(order.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, core.TokenBucketOptions{
					TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20, QueueOrder: order,
				})
				takes(t, l, 10)
				one := queues(t, l, 1)
				rejected(t, l, 0, 2*time.Second)
				queues(t, l, 1)
				rejected(t, l, 0, 3*time.Second)
				one.cancelled(t)
				rejected(t, l, 0, 2*time.Second)
				time.Sleep(2*time.Second - 1)
				rejected(t, l, 0, 1)
				time.Sleep(1)
				require.True(t, l.TryAcquire(0).Acquired())
			})
		})
	}
}
