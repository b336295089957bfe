package core_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestReleaseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := concurrency(t, 10, 10), concurrency(t, 10, 0)
		both := chain(t, a, b)
		rate := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		runs := 0
		leases := []core.Lease{
			takes(t, a, 1), takes(t, a, 2), takes(t, b, 3), takes(t, b, 1), takes(t, a, 3), takes(t, both, 1),
			takes(t, rate, 4), takes(t, a, 0), core.Grant(1, func() { runs++ }), core.Reject(),
			{},
			takes(t, a, 2).With(core.ReasonPhrase.With("")),
		}
		available(t, a, 1)
		available(t, b, 5)
		w, w2 := queues(t, a, 3), queues(t, a, 2)
		again := slices.Concat(leases, leases)
		core.ReleaseAll(again)
		core.ReleaseAll(leases)
		w.granted(t)
		w2.granted(t)
		available(t, a, 5)
		available(t, b, 10)
		available(t, rate, 6)
		require.Equal(t, 1, runs)
	})
}

func TestReleaseAllOfNothing(t *testing.T) {
	core.ReleaseAll(nil)
	l := concurrency(t, 10, 0)
	first, second := takes(t, l, 1), takes(t, l, 2)
	second.Release()
	core.ReleaseAll([]core.Lease{second, second})
	available(t, l, 9)
	third := takes(t, l, 4)
	core.ReleaseAll([]core.Lease{second, first, first})
	available(t, l, 6)
	core.ReleaseAll([]core.Lease{third})
	available(t, l, 10)
}

// No permit is held back while a later lease's release function runs, which may wait for it.
func TestReleaseAllHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, other := concurrency(t, 1, 1), concurrency(t, 1, 1)
		rate := bucket(t, core.Every(time.Hour, 5))
		release := func() {
			for _, of := range []core.Limiter{l, other} {
				lease, err := of.Acquire(t.Context(), 1)
				require.NoError(t, err)
				lease.Release()
			}
		}
		core.ReleaseAll([]core.Lease{
			takes(t, l, 1), takes(t, rate, 1), takes(t, other, 1), core.Grant(1, release), core.Grant(1, release).With(core.ReasonPhrase.With("x")),
		})
		available(t, l, 1)
		available(t, other, 1)
	})
}
