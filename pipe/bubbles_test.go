package pipe_test

import (
	"io"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

// A pipe that was made outside of all bubbles belongs to the one that first uses it.
func TestAPipeMadeOutsideOfTheBubble(t *testing.T) {
	r, w := newPipe(t, pipe.Options{WriteLimiter: concurrency(t, 4, math.MaxInt)})
	a, b := conns(t, pipe.Options{}, pipe.Options{})
	testkit.Bubble(t, "first use", func(t *testing.T) {
		done := make(chan struct{}, 2)
		go func() {
			defer func() { done <- struct{}{} }()
			writes(t, w, "full")
			writes(t, w, "more") // waits for the limiter
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			writes(t, a, string(make([]byte, 200<<10))) // waits for the reader
		}()
		synctest.Wait()
		reads(t, r, 4, "full")
		_, err := io.ReadFull(b, make([]byte, 200<<10))
		require.NoError(t, err)
		<-done
		<-done
		reads(t, r, 4, "more")
	})
}
