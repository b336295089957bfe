package bwlimit_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/bwlimit/after"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A connection gets no more than 1 MiB/s and what the bucket has saved up, 10 ms of it.
func TestLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l, err = after.Limit(l)
	require.NoError(t, err)
	defer l.Close()
	const size = 256 << 10
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Write(make([]byte, size))
			_ = c.Close()
		}
		served <- err
	}()
	began := time.Now()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	n, err := io.Copy(io.Discard, c)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	require.NoError(t, <-served)
	require.GreaterOrEqual(t, time.Since(began), 240*time.Millisecond-time.Millisecond)
}
