package wait_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

// TestStressTurn has many goroutines take turns; a lost wake-up hangs it.
func TestStressTurn(t *testing.T) {
	var of wait.Turn
	var all sync.WaitGroup
	count := 0
	for i := range 16 {
		all.Go(func() {
			for range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 0 {
					cancel() // it may get its turn, or give up
				}
				if of.Take(ctx) == nil {
					count++
					of.Leave()
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, count, 12*500)
	require.True(t, of.TryTake())
	require.False(t, of.TryTake())
}
