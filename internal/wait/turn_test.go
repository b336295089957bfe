package wait_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// TestTurnsAreEqual has calls that take the turn again as soon as they have left it.
func TestTurnsAreEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of wait.Turn
		var all sync.WaitGroup
		counts := make([]int, 4)
		end := time.Now().Add(time.Second)
		for i := range counts {
			all.Go(func() {
				for time.Now().Before(end) {
					assert.NoError(t, of.Take(t.Context()))
					counts[i]++
					time.Sleep(time.Millisecond)
					of.Leave()
				}
			})
		}
		all.Wait()
		for _, n := range counts {
			require.InDelta(t, 250, n, 2)
		}
	})
}

// TestTurnsInOrder has calls of which some give up before their turn.
func TestTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of wait.Turn
		require.True(t, of.TryTake())
		var order []int
		for i := range 6 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%2)*time.Hour)
				defer cancel()
				if of.Take(ctx) == nil {
					order = append(order, i)
					of.Leave()
				}
			}()
			synctest.Wait()
		}
		time.Sleep(90 * time.Minute) // every second call has given up
		require.False(t, of.TryTake())
		of.Leave()
		synctest.Wait()
		require.Equal(t, []int{1, 3, 5}, order)
		require.True(t, of.Free())
	})
}
