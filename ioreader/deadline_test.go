package ioreader_test

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

// TestDeadlineLiftedAfterPeerClosed: the bytes that a peer sent before it closed can be read, as
// they can from a TCP connection, although a net.Pipe rejects deadlines from then on.
func TestDeadlineLiftedAfterPeerClosed(t *testing.T) {
	for name, lift := range map[string]func(net.Conn) error{
		"SetReadDeadline": func(c net.Conn) error { return c.SetReadDeadline(time.Time{}) },
		"SetDeadline":     func(c net.Conn) error { return c.SetDeadline(time.Time{}) },
		"later":           func(c net.Conn) error { return c.SetDeadline(time.Now().Add(time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucketOf(t, 1, 1, 10*time.Second)
				c, peer := conns(t, ioreader.ConnOptions{Read: l})
				require.True(t, l.TryAcquire(1).Acquired())
				require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
				sent := writing(peer, []byte("a"))
				_, err := c.Read(make([]byte, 10))
				require.Equal(t, os.ErrDeadlineExceeded, err)
				require.NoError(t, (<-sent).err)
				require.NoError(t, peer.Close())

				require.NoError(t, lift(c))
				begun := time.Now()
				all, err := io.ReadAll(c)
				require.NoError(t, err)
				require.Equal(t, "a", string(all))
				require.Equal(t, 9*time.Second, time.Since(begun))
				require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
				_, err = c.Write([]byte("b"))
				require.ErrorIs(t, err, io.ErrClosedPipe)
				require.NoError(t, c.Close())
				require.ErrorIs(t, lift(c), io.ErrClosedPipe)
			})
		})
	}
}
