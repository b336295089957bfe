package pipe_test

import (
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
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

// sleeping is a limiter that looks at no context while it makes its callers wait, as an
// adapter around one that knows none.
type sleeping struct{ core.Limiter }

func (sleeping) Acquire(_ context.Context, n int) (core.Lease, error) {
	time.Sleep(time.Second)
	return core.Grant(n, nil), nil
}

func TestGrantedBytesReachAWaitingReadImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, w := newPipe(t, pipe.Options{WriteLimiter: sleeping{core.Unlimited()}})
		start := time.Now()
		go func() {
			_, err := w.Write(make([]byte, 64<<10))
			assert.NoError(t, err)
			assert.NoError(t, w.Close())
		}()
		_, err := r.Read(make([]byte, 64<<10))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		_, err = io.Copy(io.Discard, r)
		require.NoError(t, err)
	})
}
