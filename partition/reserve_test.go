package partition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// For passes reservations on, and so do chains.
func TestForReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keyed := func(every time.Duration) partition.Limiter[string] {
			return newKeyed(t, options{Key: self, New: func(string) (core.Limiter, error) {
				l, err := core.NewTokenBucket(core.Every(every, 2))
				return core.WithReason(l, "busy"), err
			}})
		}
		bucket, err := core.NewTokenBucket(core.Every(time.Hour, 2))
		require.NoError(t, err)
		both, err := partition.Chain(keyed(time.Second), partition.Shared[string](bucket))
		require.NoError(t, err)
		for l, want := range map[partition.Limiter[string]]time.Duration{
			keyed(time.Minute): time.Minute, partition.Shared[string](bucket): time.Hour, both: 2 * time.Hour,
		} {
			of := partition.For(l, "a")
			r := of.(core.Reserver)
			bucket.Reset()
			if l == both {
				require.True(t, bucket.TryAcquire(1).Acquired())
			}
			first := r.Reserve(2)
			d, _ := core.Delay.From(first)
			if l != both {
				require.Zero(t, d)
				first = r.Reserve(1)
				d, _ = core.Delay.From(first)
				require.Equal(t, want, d)
			} else {
				require.Equal(t, time.Hour, d)
			}
			require.Positive(t, of.(core.Reporter).Statistics().Queued)
			of.(core.Refunder).Refund(first)
			require.Zero(t, of.(core.Reporter).Statistics().Queued)
		}
		slots := newKeyed(t, options{Key: self, New: func(string) (core.Limiter, error) { return semaphore("", 1), nil }})
		require.ErrorContains(t, partition.For[string](slots, "a").(core.Reserver).Reserve(1).Err(), "no Reserver")
	})
}
