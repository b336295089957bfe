package upstream

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgress: a peer that takes bytes is told from one that takes none, although the kernel accepts no more either way.
func TestProgress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the kernel of Linux tells")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	peer, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	fill := func() {
		for err := error(nil); err == nil; {
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			_, err = c.Write(make([]byte, 1<<20))
			if err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
		}
	}
	var p Progress
	assert.False(t, p.Moved(c), "nothing was written")
	fill()
	assert.True(t, p.Moved(c), "it is written now")
	for range 3 {
		assert.False(t, p.Moved(c))
	}
	_, err = io.CopyN(io.Discard, peer, 1<<20)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.Moved(c) }, time.Minute, time.Millisecond)
}
