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

// A call that waits below two sources ends with either. A source that has ended nothing serves the next call as well.
func TestBoth(t *testing.T) {
	over := errors.New("over")
	var a, b wait.Source
	one, none := wait.Both(&a, nil)
	require.Same(t, &a, one)
	none.Leave()
	first, pair := wait.Both(&a, &b)
	require.NoError(t, first.Cause())
	pair.Leave()
	again, pair := wait.Both(&a, new(wait.Source))
	require.Same(t, first, again)
	b.End(over)
	require.NoError(t, again.Cause(), "it has left b")
	beside, other := wait.Both(&a, new(wait.Source))
	require.NotSame(t, again, beside, "that one is in use")
	other.Leave()
	ended, late := wait.Both(&a, &b)
	require.Equal(t, over, ended.Cause())
	late.Leave()
	g := wait.Signal{Ready: make(chan bool, 2)}
	g.Join(again)
	a.End(over)
	require.False(t, <-g.Ready)
	require.False(t, g.Leave())
	pair.Leave()
	last, pair := wait.Both(&a, new(wait.Source))
	require.NotSame(t, again, last)
	require.Equal(t, over, last.Cause())
	pair.Leave()
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
