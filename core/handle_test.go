package core_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// named returns a concurrency limiter of 5 permits with a name.
func named(tb testing.TB, name string) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: name, PermitLimit: 5}))
}

// What a lease has said stays, whatever happens to its handle.
func TestAnEndedLeaseKeepsItsMetadata(t *testing.T) {
	l, other := named(t, "a"), named(t, "b")
	says := func(lease core.Lease, name string, limit int) {
		t.Helper()
		n, _ := core.LimiterName.From(lease)
		require.Equal(t, name, n)
		m, _ := core.PermitLimit.From(lease)
		require.Equal(t, limit, m)
	}
	first := takes(t, l, 1)
	first.Release()
	takes(t, other, 1).Release()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{Name: "a", PermitLimit: 7}))
	second := takes(t, l, 1)
	second.Release()
	require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: 7}))
	third := takes(t, l, 1)
	third.Release()
	both := takes(t, chain(t, l, other), 1)
	both.Release()
	for range 100 {
		takes(t, l, 1).Release()
		takes(t, other, 1).Release()
		takes(t, named(t, "a"), 1).Release()
		takes(t, chain(t, named(t, "a"), other), 1).Release()
		takes(t, chain(t, l, named(t, "a")), 1).Release()
	}
	says(both, "c", 7)
	says(first, "a", 5)
	says(second, "a", 7)
	says(third, "c", 7)
}

// A lease that is granted beside an Update has the limit under which it was granted, also after its end: Remaining
// is that limit less the lease's permit.
func TestALeaseBesideAnUpdateHasOneLimit(t *testing.T) {
	l := concurrency(t, 10, 0)
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			if err := update(l, 10+i%2*10, 0); err != nil {
				t.Error(err)
			}
		}
	})
	defer func() {
		done.Store(true)
		wg.Wait()
	}()
	for range testkit.Rounds(50_000) {
		lease := takes(t, l, 1)
		limit, _ := core.PermitLimit.From(lease)
		left, _ := core.Remaining.From(lease)
		lease.Release()
		takes(t, l, 1).Release()
		still, _ := core.PermitLimit.From(lease)
		if left != limit-1 || still != limit {
			require.Fail(t, "a mixture", "%d left of %d, later %d", left, limit, still)
		}
	}
}
