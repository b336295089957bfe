package core_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// A lease that is granted beside an Update says the limit under which it was granted: what is left
// is that limit without the lease.
func TestALeaseBesideAnUpdateSaysOneLimit(t *testing.T) {
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
	for range testkit.Rounds(1_000_000) {
		lease := takes(t, l, 1)
		limit, _ := core.PermitLimit.From(lease)
		left, _ := core.Remaining.From(lease)
		if left != limit-1 {
			require.Fail(t, "a mixture", "%d left of %d", left, limit)
		}
		lease.Release()
	}
}
