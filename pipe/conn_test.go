package pipe_test

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

func conns(t *testing.T, a, b pipe.Options) (net.Conn, net.Conn) {
	t.Helper()
	c1, c2, err := pipe.Conns(a, b)
	require.NoError(t, err)
	return c1, c2
}

func timesOut(t *testing.T, op string, n, wantN int, err error) {
	t.Helper()
	assert.Equal(t, wantN, n)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	if opErr := new(net.OpError); assert.ErrorAs(t, err, &opErr) {
		assert.Equal(t, op, opErr.Op)
		assert.True(t, opErr.Timeout())
	}
}

func TestEachEndHasItsOwnLimiters(t *testing.T) {
	t.Parallel()
	aw, ar, bw, br := concurrency(t, 9, 0), bucket(t, 9), concurrency(t, 9, 0), bucket(t, 9)
	a, b := conns(t, pipe.Options{WriteLimiter: aw, ReadLimiter: ar}, pipe.Options{WriteLimiter: bw, ReadLimiter: br})
	writes(t, a, "a")
	available(t, aw, 8)
	writes(t, b, "bb")
	available(t, bw, 7)
	reads(t, a, 9, "bb")
	available(t, bw, 9)
	available(t, ar, 7)
	reads(t, b, 9, "a")
	available(t, aw, 9)
	available(t, br, 8)
	assert.Equal(t, "pipe", a.LocalAddr().Network())
	assert.Equal(t, "pipe", a.RemoteAddr().String())
}

func TestConnClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 10, 0)
		a, b := conns(t, pipe.Options{WriteLimiter: l}, pipe.Options{WriteLimiter: l})
		writes(t, a, "bye")
		writes(t, b, "lost")
		go func() {
			_, err := b.Read(make([]byte, 3))
			assert.NoError(t, err)
			_, err = b.Read(make([]byte, 3))
			assert.Equal(t, io.EOF, err)
		}()
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		synctest.Wait()
		available(t, l, 10)
		_, err := b.Write([]byte("a"))
		assert.Equal(t, io.ErrClosedPipe, err)
		_, err = a.Read(make([]byte, 3))
		assert.Equal(t, io.ErrClosedPipe, err)
		_, err = a.Write([]byte("a"))
		assert.Equal(t, io.ErrClosedPipe, err)
		assert.Equal(t, io.ErrClosedPipe, a.SetDeadline(time.Time{}))
		require.NoError(t, b.Close())
	})
}

func TestConnCloseWrite(t *testing.T) {
	t.Parallel()
	a, b := conns(t, pipe.Options{}, pipe.Options{})
	n, err := io.Copy(a, strings.NewReader("question"))
	assert.NoError(t, err)
	assert.Equal(t, int64(8), n)
	require.NoError(t, a.(interface{ CloseWrite() error }).CloseWrite())
	var question strings.Builder
	n, err = io.Copy(&question, b)
	assert.NoError(t, err)
	assert.Equal(t, int64(8), n)
	assert.Equal(t, "question", question.String())
	writes(t, b, "answer")
	assert.NoError(t, a.SetDeadline(time.Time{}))
	reads(t, a, 9, "answer")
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := conns(t, pipe.Options{}, pipe.Options{})
		start := time.Now()
		require.NoError(t, a.SetDeadline(start.Add(3*time.Second)))
		n, err := a.Read(make([]byte, 9))
		timesOut(t, "read", n, 0, err)
		assert.Equal(t, 3*time.Second, time.Since(start))
		n, err = a.Write(make([]byte, 100<<10)) // it has passed
		timesOut(t, "write", n, 0, err)

		// Also if there are bytes to read.
		writes(t, b, "x")
		n, err = a.Read(make([]byte, 9))
		timesOut(t, "read", n, 0, err)

		// A new deadline wakes the calls that wait for the other side, and later calls obey a later one.
		require.NoError(t, a.SetDeadline(time.Time{}))
		reads(t, a, 9, "x")
		for range 2 {
			go func() {
				n, err := a.Read(make([]byte, 9))
				timesOut(t, "read", n, 0, err)
				_, err = a.Write(make([]byte, 100<<10))
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}()
		}
		synctest.Wait()
		require.NoError(t, a.SetDeadline(time.Now()))
		synctest.Wait()
		require.NoError(t, a.SetReadDeadline(time.Now().Add(time.Hour)))
		writes(t, b, "y")
		reads(t, a, 9, "y")
		require.NoError(t, a.Close())
	})
}

func TestADeadlineIsNotTheLimitersToRefuse(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"concurrency", "bucket", "chain", "foreign"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := limiterKinds(t)[kind]
				a, b := conns(t, pipe.Options{WriteLimiter: l}, pipe.Options{ReadLimiter: limiterKinds(t)[kind]})
				start := time.Now()
				require.NoError(t, a.SetWriteDeadline(start.Add(2*time.Second)))
				n, err := a.Write([]byte("abcdefgh"))
				timesOut(t, "write", n, 4, err)
				assert.Equal(t, 2*time.Second, time.Since(start))

				require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Second)))
				reads(t, b, 4, "abcd")
				available(t, l, map[string]int{"concurrency": 4, "foreign": 4}[kind])
				n, err = b.Read(make([]byte, 1))
				timesOut(t, "read", n, 0, err)
				assert.Equal(t, 3*time.Second, time.Since(start))

				// Moved by another goroutine, while throttled.
				require.NoError(t, a.SetWriteDeadline(time.Time{}))
				if _, ok := l.(core.Replenisher); !ok {
					return
				}
				go func() {
					n, err := a.Write([]byte("ghij"))
					timesOut(t, "write", n, 0, err)
				}()
				synctest.Wait()
				require.NoError(t, a.SetWriteDeadline(start))
				synctest.Wait()
				assert.Equal(t, 3*time.Second, time.Since(start))
			})
		})
	}
}

// A read deadline that has passed can be lifted after the peer has closed: as with TCP, what the peer wrote
// before can be read, and then comes EOF.
func TestAReadDeadlineIsLiftedAfterThePeerClosed(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(net.Conn, time.Time) error{
		"SetDeadline": net.Conn.SetDeadline, "SetReadDeadline": net.Conn.SetReadDeadline,
	} {
		a, b := conns(t, pipe.Options{}, pipe.Options{})
		writes(t, b, "last words")
		require.NoError(t, set(a, time.Unix(1, 0)))
		n, err := a.Read(make([]byte, 4))
		timesOut(t, "read", n, 0, err)
		require.NoError(t, b.Close())
		n, err = a.Read(make([]byte, 4))
		timesOut(t, "read", n, 0, err)
		require.NoError(t, set(a, time.Time{}), name)
		words, err := io.ReadAll(a)
		require.NoError(t, err)
		require.Equal(t, "last words", string(words))
		_, err = a.Write([]byte("x"))
		require.Equal(t, io.ErrClosedPipe, err)
		require.NoError(t, a.Close())
		require.Equal(t, io.ErrClosedPipe, set(a, time.Time{}))
	}
}

// An end that is closed takes no deadline; one whose peer is closed does.
func TestDeadlinesOfClosedConns(t *testing.T) {
	t.Parallel()
	a, b := conns(t, pipe.Options{}, pipe.Options{})
	require.NoError(t, a.(interface{ CloseWrite() error }).CloseWrite())
	require.NoError(t, a.SetDeadline(time.Time{}), "it can still read")
	require.NoError(t, b.SetDeadline(time.Time{}), "it can still write")
	require.NoError(t, b.Close())
	for _, at := range []time.Time{{}, time.Unix(1, 0)} {
		for _, set := range []func(net.Conn, time.Time) error{net.Conn.SetDeadline, net.Conn.SetReadDeadline, net.Conn.SetWriteDeadline} {
			require.NoError(t, set(a, at))
			require.Equal(t, io.ErrClosedPipe, set(b, at))
		}
	}
}

// TestALargeWriteMeetsAReadThatEnds: at the instant at which a waiting Read ends, a Write that
// fits into the buffer starts, and does not wait for that Read.
func TestALargeWriteMeetsAReadThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for i := range 1000 {
			a, b := conns(t, pipe.Options{}, pipe.Options{})
			require.NoError(t, b.SetReadDeadline(time.Now().Add(time.Second)))
			written := make(chan error, 1)
			time.AfterFunc(time.Second, func() {
				_, err := a.Write(make([]byte, 20<<10))
				written <- err
			})
			n, err := b.Read(make([]byte, 64<<10))
			if err != nil {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			require.NoError(t, <-written)
			require.NoError(t, b.SetReadDeadline(time.Time{}))
			if i%2 == 0 && n < 20<<10 {
				_, err = io.ReadFull(b, make([]byte, 20<<10-n))
				require.NoError(t, err)
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	})
}
