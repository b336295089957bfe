package ioreader_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// conns returns both ends of a pipe, the first with limits.
func conns(t *testing.T, o ioreader.ConnOptions) (limited, peer net.Conn) {
	t.Helper()
	under, peer := net.Pipe()
	limited, err := ioreader.NewConn(under, o)
	require.NoError(t, err)
	t.Cleanup(func() { limited.Close(); peer.Close() })
	return limited, peer
}

// drain reads all that comes, until the end.
func drain(c net.Conn) <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		p, _ := io.ReadAll(c)
		all <- p
	}()
	return all
}

func TestConnLimitsEachDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := bucketOf(t, 100, 1, time.Millisecond), bucketOf(t, 100, 1, 10*time.Millisecond)
		c, peer := conns(t, ioreader.ConnOptions{Read: in, Write: out})
		start := time.Now()
		sent := writing(c, pattern(200))
		got := make([]byte, 200)
		_, err := io.ReadFull(peer, got)
		require.NoError(t, err)
		require.Equal(t, pattern(200), got)
		require.Equal(t, outcome{200, nil, start.Add(time.Second)}, <-sent)
		start = time.Now()
		sent = writing(peer, pattern(200))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.NoError(t, (<-sent).err)
	})
}

func TestADeadlineEndsAThrottledCallAtItsTime(t *testing.T) {
	for name, o := range map[string]core.TokenBucketOptions{
		"that waits":                  {TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour, QueueLimit: 100},
		"whatever the limiter thinks": {TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: 2 * time.Second, QueueLimit: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tokenBucket(t, o)
				c, peer := conns(t, ioreader.ConnOptions{Write: l, Read: l})
				all := drain(peer)
				start := time.Now()
				require.NoError(t, c.SetWriteDeadline(start.Add(time.Second)))
				n, err := c.Write([]byte("0123456789"))
				require.Equal(t, os.ErrDeadlineExceeded, err)
				require.Equal(t, 4, n)
				require.Equal(t, start.Add(time.Second), time.Now())
				n, err = c.Write([]byte("x"))
				require.Zero(t, n)
				require.Equal(t, os.ErrDeadlineExceeded, err)
				require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
				_, err = c.Read(make([]byte, 1))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				require.Zero(t, l.Statistics().Queued)
				// After a new deadline, or none, it continues.
				require.NoError(t, c.SetDeadline(time.Time{}))
				n, err = c.Write([]byte("y"))
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.NoError(t, c.Close())
				require.Equal(t, "0123y", string(<-all))
			})
		})
	}
}

func TestCloseEndsAThrottledCallOfAConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 1, 1, time.Hour)
		require.True(t, l.TryAcquire(1).Acquired())
		c, peer := conns(t, ioreader.ConnOptions{Write: l, Read: l})
		start := time.Now()
		w, r := writing(c, []byte("a")), reading(c, make([]byte, 1))
		_, err := peer.Write([]byte("a"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, l.Statistics().Queued)
		require.NoError(t, c.Close())
		for _, done := range []<-chan outcome{w, r} {
			got := <-done
			require.ErrorIs(t, got.err, net.ErrClosed)
			require.ErrorIs(t, got.err, io.ErrClosedPipe)
			require.Equal(t, start, got.at)
		}
		require.Zero(t, l.Statistics().Queued)
		_ = c.SetDeadline(time.Now().Add(time.Second)) // does not open it again
		_, err = c.Write([]byte("a"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestADeadlineEndsACallThatWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := conns(t, ioreader.ConnOptions{Write: perSecond(t, 1000)})
		first := writing(c, []byte("1"))
		synctest.Wait()
		second := writing(c, []byte("2"))
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Second)))
		require.ErrorIs(t, (<-second).err, os.ErrDeadlineExceeded)
		require.ErrorIs(t, (<-first).err, os.ErrDeadlineExceeded)
		require.NoError(t, peer.Close())
	})
}

// tcp returns both ends of a connection over loopback.
func tcp(tb testing.TB) (a, b *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	require.NoError(tb, err)
	accepted, err := l.Accept()
	require.NoError(tb, err)
	tb.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

func TestATCPConnKeepsItsHalves(t *testing.T) {
	a, b := tcp(t)
	c, err := ioreader.NewConn(a, ioreader.ConnOptions{Write: perSecond(t, 1000)})
	require.NoError(t, err)
	require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
	require.NoError(t, c.(interface{ CloseRead() error }).CloseRead())
	_, err = b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.Equal(t, a, c.(interface{ NetConn() net.Conn }).NetConn())

	inMemory, _ := conns(t, ioreader.ConnOptions{})
	_, ok := inMemory.(interface{ CloseWrite() error })
	require.False(t, ok, "a pipe has no CloseWrite")
	_, err = ioreader.NewConn(nil, ioreader.ConnOptions{})
	require.ErrorContains(t, err, "nil net.Conn")
}

// sinking is a connection of which only ReadFrom is used.
type sinking struct {
	net.Conn
	sizes []int64
}

func (s *sinking) ReadFrom(r io.Reader) (int64, error) {
	lr, ok := r.(*io.LimitedReader)
	if _, file := lr.R.(interface{ Fd() uintptr }); !ok || !file {
		return 0, errors.New("not what the kernel's ways know")
	}
	n, err := io.Copy(io.Discard, r)
	s.sizes = append(s.sizes, n)
	return n, err
}

func TestAFileIsHandedToReadFromSliceBySlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := new(sinking)
		l := bucketOf(t, 10_000, 1, time.Microsecond) // 1 MB/s
		start := time.Now()
		n, err := io.Copy(ioreader.NewWriter(t.Context(), struct {
			io.Writer
			io.ReaderFrom
		}{io.Discard, under}, l), fileOf(t, pattern(100_000)))
		require.NoError(t, err)
		require.Equal(t, int64(100_000), n)
		require.Equal(t, 90*time.Millisecond, time.Since(start))
		for _, size := range under.sizes {
			require.LessOrEqual(t, size, int64(2500))
		}
		require.Zero(t, l.Available())
	})
}

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
				start := time.Now()
				all, err := io.ReadAll(c)
				require.NoError(t, err)
				require.Equal(t, "a", string(all))
				require.Equal(t, 9*time.Second, time.Since(start))
				require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
				_, err = c.Write([]byte("b"))
				require.ErrorIs(t, err, io.ErrClosedPipe)
				require.NoError(t, c.Close())
				require.ErrorIs(t, lift(c), io.ErrClosedPipe)
			})
		})
	}
}
