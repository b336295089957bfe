package wait_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of wait.Turn
		require.True(t, of.TryTake())
		ctx, cancel := context.WithCancel(t.Context())
		canceled, granted := make(chan error, 1), make(chan error, 1)
		go func() { canceled <- of.Take(ctx) }()
		go func() { granted <- of.Take(t.Context()) }()
		synctest.Wait()
		cancel()
		require.Equal(t, context.Canceled, <-canceled)
		synctest.Wait()
		require.Empty(t, granted)
		of.Leave()
		require.NoError(t, <-granted)
	})
}

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
