package wait_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

// With one P nobody can unlock the mutex while a caller spins. The counter is right with any number.
func TestMutexExcludes(t *testing.T) {
	for _, procs := range []int{1, 4} {
		before := runtime.GOMAXPROCS(procs)
		var m wait.Mutex
		var all sync.WaitGroup
		n := 0
		for range 8 {
			all.Go(func() {
				for range 200 {
					m.Lock()
					k := n
					if k%16 == 0 {
						runtime.Gosched() // others find the mutex locked
					}
					n = k + 1
					m.Unlock()
				}
			})
		}
		all.Wait()
		runtime.GOMAXPROCS(before)
		require.Equal(t, 1600, n)
	}
}
