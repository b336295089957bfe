package pipe_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// TestOrderOfErrors: a done context comes first, even if there are bytes or room, then the end of the pipe, then that of the limiter.
func TestOrderOfErrors(t *testing.T) {
	t.Parallel()
	ended := concurrency(t, 10, 0)
	require.NoError(t, ended.Close())
	done, cancel := context.WithCancel(t.Context())
	cancel()
	p := make([]byte, 10)
	for _, l := range []core.Limiter{ended, core.NewSwitch(ended), core.Must(core.Chain(ended, bucket(t, 10)))} {
		r, w := newPipe(t, pipe.Options{WriteLimiter: l})
		_, err := w.WriteContext(done, p)
		require.Equal(t, context.Canceled, err)
		_, err = w.WriteContext(t.Context(), p)
		require.ErrorIs(t, err, core.ErrClosed)
		require.NoError(t, w.Close())
		_, err = w.WriteContext(t.Context(), p)
		require.Equal(t, io.ErrClosedPipe, err)
		_, err = w.WriteContext(done, p)
		require.Equal(t, context.Canceled, err)
		_, err = r.ReadContext(done, p)
		require.Equal(t, context.Canceled, err)

		r, w = newPipe(t, pipe.Options{ReadLimiter: l})
		_, err = w.WriteContext(done, p)
		require.Equal(t, context.Canceled, err)
		writes(t, w, "text")
		_, err = r.ReadContext(done, p)
		require.Equal(t, context.Canceled, err)
		_, err = r.ReadContext(t.Context(), p)
		require.ErrorIs(t, err, core.ErrClosed)
		require.NoError(t, r.Close())
		_, err = r.ReadContext(t.Context(), p)
		require.Equal(t, io.ErrClosedPipe, err)
		_, err = r.ReadContext(done, p)
		require.Equal(t, context.Canceled, err)
	}
}
