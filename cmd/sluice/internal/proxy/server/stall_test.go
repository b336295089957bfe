package server

import (
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStalledWrites: who takes its response slowly is served, and who takes nothing of it is cut off.
func TestStalledWrites(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * stallTime} { // between the write that the client reads and the one that it does not
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			c := &clientConn{Conn: ours}
			go func() { _, _ = io.ReadFull(theirs, make([]byte, 2)) }()
			_, err := c.Write([]byte("ok"))
			require.NoError(t, err)
			time.Sleep(pause)
			start := time.Now()
			_, err = c.Write([]byte("more"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, stallTime, time.Since(start))
		})
	}
}
