package pipe_test

import (
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/pipe"
)

// TestThePaidBytesOfALargeWritePass has a Write that lends its bytes give up: those that
// have permits are buffered.
func TestThePaidBytesOfALargeWritePass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 100_000, math.MaxInt)
		r, w := newPipe(t, pipe.Options{WriteLimiter: l})
		ctx, cancel := context.WithCancel(t.Context())
		wrote := make(chan int)
		go func() {
			n, err := w.WriteContext(ctx, make([]byte, 1<<20))
			assert.Equal(t, context.Canceled, err)
			wrote <- n
		}()
		synctest.Wait()
		_, err := io.ReadFull(r, make([]byte, 1000))
		require.NoError(t, err)
		available(t, l, 1000)
		cancel()
		require.Equal(t, 100_000, <-wrote)
		require.Equal(t, 99_000, r.Buffered())
		available(t, l, 1000)
		require.NoError(t, r.Close())
		available(t, l, 100_000)
	})
}
