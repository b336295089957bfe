package adaptive_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
)

// However many release at once, each success is counted, and once: AIMD's limit tells how many
// there were.
func TestStressNoSampleIsLost(t *testing.T) {
	const samples = 40_000
	limitAfter := func(workers int) int {
		l := newConcurrency(t, adaptive.Options{Initial: 200, Algorithm: adaptive.AIMD{Timeout: time.Hour}})
		held := l.TryAcquire(190) // so that the limit is used, and grows
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for i := range samples / workers {
					lease := l.TryAcquire(1)
					if i%8 == 0 {
						l.Ignore(l.TryAcquire(1)) // another, which may be the one without a ticket
					}
					lease.Release()
					lease.Release()
				}
			})
		}
		group.Wait()
		l.Ignore(held)
		require.Equal(t, l.Limit(), l.Available())
		return l.Limit()
	}
	want := limitAfter(1)
	require.Greater(t, want, 300)
	for _, workers := range []int{2, 4} {
		require.Equal(t, want, limitAfter(workers), "%d at once", workers)
	}
}
