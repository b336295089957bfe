package wait_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

// A Pair that waits for its next call does not keep alive what it has waited for, such as a channel that nobody uses any more.
func TestASparePairKeepsNoSource(t *testing.T) {
	var own wait.Source
	other := new(wait.Source)
	kept := weak.Make(other)
	_, p := wait.Both(&own, other)
	p.Leave()
	for range 3 {
		runtime.GC()
	}
	require.Nil(t, kept.Value())
	runtime.KeepAlive(&own)
}

// Sources end while the calls of other sources come and go, each with a Pair in a Pair. No end reaches a call of another
// source, and each reaches its own.
func TestPairsEndOnlyTheirOwnCalls(t *testing.T) {
	var outer, inner wait.Source
	over := errors.New("over")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range testkit.Rounds(5_000) {
				var own wait.Source
				both, p := wait.Both(&outer, &own)
				all, pp := wait.Both(&inner, both)
				cause := all.Cause()
				g := wait.Signal{Ready: make(chan bool, 2)}
				g.Join(all)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					own.End(over)
				}()
				var left bool
				if own.Cause() == nil {
					left = g.Leave()
				} else {
					<-g.Ready
				}
				pp.Leave()
				p.Leave()
				<-ended
				if cause != nil || left && len(g.Ready) > 0 {
					t.Errorf("a call of a source that has not ended: cause %v, left %v", cause, left)
					return
				}
			}
		})
	}
	wg.Wait()
}
