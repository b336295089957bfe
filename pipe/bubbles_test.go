package pipe_test

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/pipe"
)

// A pipe made outside of all bubbles can be used in two of them, as its limiter and a channel can.
// A failure is fatal to the process, so the story runs in one of its own.
func TestAPipeInTwoBubbles(t *testing.T) {
	const inChild = "SLUICE_TEST_TWO_BUBBLES"
	if os.Getenv(inChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPipeInTwoBubbles$")
		child.Env = append(os.Environ(), inChild+"=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%.300s", out)
		return
	}
	r, w := newPipe(t, pipe.Options{WriteLimiter: concurrency(t, 4, math.MaxInt)})
	story := func(t *testing.T) {
		writes(t, w, "full")
		done := make(chan struct{})
		go func() {
			defer close(done)
			writes(t, w, "more") // waits for the limiter
		}()
		synctest.Wait()
		reads(t, r, 4, "full")
		<-done
		reads(t, r, 4, "more")
	}
	t.Run("first", func(t *testing.T) { synctest.Test(t, story) })
	t.Run("second", func(t *testing.T) { synctest.Test(t, story) })
}
