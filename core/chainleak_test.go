package core_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A chain that finds too low a limit, and is granted the permits as it was raised just then,
// gives them back.
func TestAChainKeepsNothingOfALimitThatIsRaised(t *testing.T) {
	l := concurrency(t, 10, 0)
	c := chain(t, concurrency(t, 10, 0), l)
	limit := func(n int) { require.NoError(t, l.Update(core.ConcurrencyLimiterOptions{PermitLimit: n})) }
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			limit(1)
			limit(10)
		}
	})
	for range 100_000 {
		c.TryAcquire(5).Release()
	}
	done.Store(true)
	wg.Wait()
	available(t, c, 10)
}

// A lease of a chain may be settled more often than a ticket has generations.
func TestALeaseOfAChainIsSettledOften(t *testing.T) {
	l := concurrency(t, 10, 0)
	c := chain(t, l)
	lease := takes(t, c, 1)
	for i := range 1<<20 + 2 {
		lease = c.Settle(lease, 2-i%2)
	}
	lease.Release()
	available(t, l, 10)
}
