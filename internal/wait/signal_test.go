package wait_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

func TestASignal(t *testing.T) {
	over := errors.New("over")
	g := wait.Signal{Ready: make(chan bool, 2)}
	require.True(t, g.Leave())
	g.Join(nil)
	require.True(t, g.Leave())
	var s wait.Source
	g.Join(&s)
	g.Ready <- true
	require.True(t, <-g.Ready)
	require.True(t, g.Leave())
	other := wait.Signal{Ready: make(chan bool, 2)}
	other.Join(&s)
	s.End(over)
	require.False(t, <-other.Ready)
	require.False(t, other.Leave())
	require.Empty(t, g.Ready, "it had left")
	g.Join(&s)
	require.False(t, <-g.Ready)
	require.False(t, g.Leave())
}

// A Signal that has left before the end of its source receives nothing from it.
func TestASignalLeavesWhileItsSourceEnds(t *testing.T) {
	for range 2000 {
		var s wait.Source
		g := wait.Signal{Ready: make(chan bool, 2)}
		g.Join(&s)
		var ending sync.WaitGroup
		ending.Go(func() { s.End(errors.New("over")) })
		left := g.Leave()
		ending.Wait()
		require.Equal(t, left, len(g.Ready) == 0)
	}
}
