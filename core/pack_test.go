package core_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// Numbers too large for a lease's own fields are told all the same.
func TestMetadataOfLargeNumbers(t *testing.T) {
	for name := range four(t, 1, 1) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit, n = math.MaxInt>>3 + 1, math.MaxInt>>13 + 2
				l := four(t, limit, limit)[name]
				time.Sleep(time.Hour)
				want := map[string]any{"PERMIT_LIMIT": limit, "REMAINING": limit - n}
				_, timed := l.(core.Replenisher)
				if timed {
					want["RESET_AFTER"], want["WINDOW"] = time.Second, time.Second
				}
				lease := takes(t, l, n)
				require.Equal(t, want, metadata(t, lease))
				shade := core.NewMetadataKey[string]("SHADE")
				tagged := lease.With(shade.With("green")).With()
				require.Equal(t, n, tagged.Permits())

				time.Sleep(200 * time.Millisecond)
				refused := l.TryAcquire(limit)
				want["REASON_PHRASE"] = "permits exhausted"
				if timed {
					want["RESET_AFTER"] = 800 * time.Millisecond
					want["RETRY_AFTER"] = 800 * time.Millisecond
				}
				require.Equal(t, want, metadata(t, refused))
				var e *core.RejectedError
				require.ErrorAs(t, refused.Err(), &e)
				require.Equal(t, limit, e.Permits)

				tagged.Refund()
				available(t, l, limit)
				lease.Refund()
				available(t, l, limit)
			})
		})
	}
}

// A lease of nothing that is settled up to more permits than the fields of a lease have room for
// gives all of them back.
func TestALeaseOfNothingIsSettledUpToVeryMany(t *testing.T) {
	const most = math.MaxInt
	l := concurrency(t, most, 0)
	for range 3 { // handles are used again
		lease := takes(t, l, 0).Settle(most - 1)
		require.Equal(t, most-1, lease.Permits())
		available(t, l, 1)
		lease = lease.Settle(most - 5)
		available(t, l, 5)
		lease.Release()
		lease.Release()
		available(t, l, most)
	}
}
