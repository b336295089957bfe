package ioreader_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// TestOrderOfErrors: a done context comes first, then the end of the stream, then that of the limiter.
func TestOrderOfErrors(t *testing.T) {
	closed := semaphore(t, 10)
	require.NoError(t, closed.Close())
	writer := func(ctx context.Context) *ioreader.Writer { return ioreader.NewWriter(ctx, io.Discard, closed) }
	reader := func(ctx context.Context) *ioreader.Reader { return ioreader.NewReader(ctx, slowReader{}, closed) }
	done, p := canceled(t.Context()), make([]byte, 100)
	for name, c := range map[string]struct {
		call func(ctx context.Context, end bool) (int, error)
		ends error // after Close
	}{
		"Write": {func(ctx context.Context, end bool) (int, error) {
			w := writer(ctx)
			if end {
				require.NoError(t, w.Close())
			}
			return w.Write(p)
		}, io.ErrClosedPipe},
		"Read": {func(ctx context.Context, end bool) (int, error) {
			r := reader(ctx)
			if end {
				require.NoError(t, r.Close())
			}
			return r.Read(p)
		}, io.ErrClosedPipe},
		"Copy": {func(ctx context.Context, _ bool) (int, error) {
			n, err := ioreader.Copy(ctx, io.Discard, slowReader{}, ioreader.CopyOptions{Limiter: closed})
			return int(n), err
		}, nil},
		"Dial": {func(ctx context.Context, _ bool) (int, error) {
			dial, _ := dialing(t, ioreader.DialerOptions{Conns: closed})
			_, err := dial(ctx, "tcp", "anywhere")
			return 0, err
		}, nil},
	} {
		for _, end := range []bool{false, true} {
			n, err := c.call(done, end)
			require.Zero(t, n, name)
			require.Equal(t, context.Canceled, err, name)
		}
		n, err := c.call(t.Context(), false)
		require.Zero(t, n, name)
		require.ErrorIs(t, err, core.ErrClosed, name)
		if c.ends != nil {
			n, err = c.call(t.Context(), true)
			require.Zero(t, n, name)
			require.Equal(t, c.ends, err, name)
		}
	}
	a, _ := net.Pipe()
	l, err := ioreader.NewListener(one{a}, ioreader.ListenerOptions{Conns: closed})
	require.NoError(t, err)
	_, err = l.Accept()
	require.Equal(t, core.ErrClosed, err)
}
