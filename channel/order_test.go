package channel_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// In a Bounded channel a sender joins the line at once: a goroutine that could run, and makes room, makes
// it for the sender. On one processor, which runs that goroutine when the sender waits and not before.
func TestASenderYieldsToNobody(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	overtaken := 0
	for i := range 100 {
		c := bounded(t, 1+i%2)
		sends(t, c, numbers(1+i%2)...)
		var group sync.WaitGroup
		group.Go(func() {
			c.TryReceive()
			if c.TrySend(4) == nil {
				overtaken++
				c.TryReceive() // so that the sender ends
			}
		})
		require.NoError(t, c.Send(t.Context(), 3))
		group.Wait()
	}
	require.LessOrEqual(t, overtaken, 10, "a goroutine may be preempted")
}
