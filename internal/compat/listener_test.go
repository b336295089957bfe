package compat_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/netutil"

	"github.com/sluice-go/sluice/ioreader"
)

// bothListeners runs a test with netutil's LimitListener and with ours: what x/net's tests
// ask of the one, the other does as well.
func bothListeners(t *testing.T, test func(t *testing.T, limit func(l net.Listener, n int) net.Listener)) {
	t.Helper()
	t.Run("netutil", func(t *testing.T) { test(t, netutil.LimitListener) })
	t.Run("ioreader", func(t *testing.T) {
		test(t, func(l net.Listener, n int) net.Listener {
			limited, err := ioreader.NewListener(l, ioreader.ListenerOptions{Conns: slots(t, n)})
			require.NoError(t, err)
			return limited
		})
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// dial opens a connection, and closes it when it has read all that it is sent.
func dial(addr net.Addr) (string, error) {
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	return string(b), err
}

// While the maximum number of connections is open, no other one is accepted.
func TestListenerAcceptsNoMoreThanItsLimit(t *testing.T) {
	bothListeners(t, func(t *testing.T, limit func(net.Listener, int) net.Listener) {
		const conns = 5
		l := limit(listen(t), conns)
		accepted, closed := make(chan net.Conn), make(chan struct{})
		go func() {
			defer close(closed)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		var clients sync.WaitGroup
		t.Cleanup(clients.Wait) // after the connections are closed
		for range 2 * conns {
			clients.Go(func() { _, _ = dial(l.Addr()) })
		}
		for range conns {
			c := <-accepted
			t.Cleanup(func() { c.Close() })
		}
		select {
		case <-accepted:
			t.Errorf("accepted one more than %d", conns)
		case <-time.After(20 * time.Millisecond):
		}
		assert.NoError(t, l.Close())
		<-closed
	})
}

// Waves of connections, each twice as many as may be open: all are served, a few at a time.
func TestListenerServesAllInTurn(t *testing.T) {
	bothListeners(t, func(t *testing.T, limit func(net.Listener, int) net.Listener) {
		const conns, waves = 5, 10
		l := limit(listen(t), conns)
		var open, peak atomic.Int32
		var served sync.WaitGroup
		served.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if n := open.Add(1); n > peak.Load() {
					peak.Store(n)
				}
				served.Go(func() {
					_, _ = io.WriteString(c, "bye")
					open.Add(-1)
					c.Close()
				})
			}
		})
		for range waves {
			var clients sync.WaitGroup
			for range 2 * conns {
				clients.Go(func() {
					got, err := dial(l.Addr())
					assert.NoError(t, err)
					assert.Equal(t, "bye", got)
				})
			}
			clients.Wait()
		}
		assert.NoError(t, l.Close())
		served.Wait()
		assert.LessOrEqual(t, peak.Load(), int32(conns))
	})
}

var errBroken = errors.New("the listener is broken")

type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errBroken }

// An Accept that fails releases its permit.
func TestListenerThatFailsKeepsNothing(t *testing.T) {
	bothListeners(t, func(t *testing.T, limit func(net.Listener, int) net.Listener) {
		const conns = 2
		l := limit(brokenListener{listen(t)}, conns)
		for range conns + 1 {
			_, err := l.Accept()
			require.ErrorIs(t, err, errBroken)
		}
	})
}

// Close ends an Accept that waits because too many are open.
func TestListenerCloseEndsAccept(t *testing.T) {
	bothListeners(t, func(t *testing.T, limit func(net.Listener, int) net.Listener) {
		l := limit(listen(t), 1)
		var client sync.WaitGroup
		client.Go(func() { _, _ = dial(l.Addr()) })
		first, err := l.Accept()
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("Accept returned before Close: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		require.NoError(t, l.Close())
		require.Error(t, <-ended)
		require.NoError(t, first.Close())
		client.Wait()
	})
}
