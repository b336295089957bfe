package upstream

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSlowPeer: a Write that tries again finds room after each step that a peer takes, also where the kernel would not wake it; and
// what has been written for a backend is not far ahead of it.
func TestSlowPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	much := make([]byte, 64<<20) // more than any buffers take
	for name, dial := range map[string]func() (net.Conn, error){
		"client":  func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		"backend": func() (net.Conn, error) { return dialBackend(t.Context(), "tcp", l.Addr().String()) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial()
			require.NoError(t, err)
			defer func() { _ = c.Close() }()
			peer, err := l.Accept()
			require.NoError(t, err)
			defer func() { _ = peer.Close() }()
			tries := func() int {
				n, err := Write(c, much, 50*time.Millisecond)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				return n
			}
			written := 0
			for n := tries(); n > 0; n = tries() {
				written += n
			}
			if name == "backend" && runtime.GOOS == "linux" {
				assert.Less(t, written, 1<<20)
			}
			_, err = io.CopyN(io.Discard, peer, 128<<10)
			require.NoError(t, err)
			n := 0
			for i := 0; i < 100 && n == 0; i++ {
				n = tries()
			}
			assert.Positive(t, n)
		})
	}
}

// TestSlowWrite: a peer that takes a byte within the limit, again and again, gets all of a Write.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		go func() {
			for range 20 {
				time.Sleep(silence - silence/writeTries)
				_, err := io.ReadFull(theirs, make([]byte, 1))
				assert.NoError(t, err)
			}
		}()
		n, err := Write(ours, make([]byte, 20), silence)
		require.NoError(t, err)
		assert.Equal(t, 20, n)
	})
}
