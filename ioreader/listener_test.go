package ioreader_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// hall is a listener in memory: dial puts a connection into it.
type hall struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newHall() *hall { return &hall{waiting: make(chan net.Conn, 100), closed: make(chan struct{})} }

func (h *hall) dial() net.Conn {
	a, b := net.Pipe()
	h.waiting <- b
	return a
}

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.waiting:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (*hall) Addr() net.Addr { return &net.UnixAddr{Name: "hall", Net: "pipe"} }

// accepted is what Accept returned, and when.
type accepted struct {
	net.Conn
	err error
	at  time.Time
}

func accepting(l net.Listener) <-chan accepted {
	done := make(chan accepted, 1)
	go func() {
		c, err := l.Accept()
		done <- accepted{c, err, time.Now()}
	}()
	return done
}

func listen(t *testing.T, under net.Listener, o ioreader.ListenerOptions) net.Listener {
	t.Helper()
	l, err := ioreader.NewListener(under, o)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestListenerLimitsHowManyAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places, h := semaphore(t, 2), newHall()
		l := listen(t, h, ioreader.ListenerOptions{Conns: places})
		for range 3 {
			h.dial()
		}
		first, second := <-accepting(l), <-accepting(l)
		require.NoError(t, first.err)
		require.NoError(t, second.err)
		third := accepting(l)
		synctest.Wait()
		require.Empty(t, third)
		require.Zero(t, places.Available())
		time.Sleep(time.Minute)
		require.NoError(t, first.Close())
		got := <-third
		require.NoError(t, got.err)
		require.Equal(t, time.Now(), got.at)
		for range 2 { // the second Close of a connection gives nothing back
			require.NoError(t, first.Close())
			require.NoError(t, second.Close())
		}
		require.Equal(t, 1, places.Available())
		require.NoError(t, got.Close())
		require.Equal(t, 2, places.Available())
	})
}

func TestListenerLimitsHowFastItAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		l := listen(t, h, ioreader.ListenerOptions{Accept: bucketOf(t, 2, 1, time.Second)})
		begun := time.Now()
		for i := range 5 {
			h.dial()
			got := <-accepting(l)
			require.NoError(t, got.err)
			require.Equal(t, time.Duration(max(i-1, 0))*time.Second, got.at.Sub(begun))
		}
	})
}

func TestAListenerThatClosesEndsItsAccept(t *testing.T) {
	for name, o := range map[string]func(core.Limiter) ioreader.ListenerOptions{
		"that waits for a permit": func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Accept: l} },
		"that waits for a place":  func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Conns: l} },
		"that waits for a client": func(core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, h := semaphore(t, 1), newHall()
				taken := limiter.TryAcquire(1)
				options := o(limiter)
				l := listen(t, h, options)
				var client net.Conn
				if options.Accept != nil || options.Conns != nil {
					client = h.dial()
				}
				begun := time.Now()
				done := accepting(l)
				synctest.Wait()
				require.NoError(t, l.Close())
				got := <-done
				require.ErrorIs(t, got.err, net.ErrClosed)
				require.Nil(t, got.Conn)
				require.Equal(t, begun, got.at)
				if client != nil {
					_, err := client.Read(make([]byte, 1))
					require.Error(t, err, "it was closed")
				}
				taken.Release()
				require.Equal(t, 1, limiter.Available())
			})
		})
	}
}

func TestARefusedConnectionIsClosedAndTheServerGoesOn(t *testing.T) {
	places, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "places", PermitLimit: 1})
	require.NoError(t, err)
	pace, h := bucketOf(t, 10, 1, time.Hour), newHall()
	l := listen(t, h, ioreader.ListenerOptions{Conns: places, Accept: pace})
	h.dial()
	first := <-accepting(l)
	require.NoError(t, first.err)
	client := h.dial()
	got := <-accepting(l)
	var temporary interface {
		net.Error
		Temporary() bool
	}
	require.ErrorAs(t, got.err, &temporary)
	require.True(t, temporary.Temporary())
	require.False(t, temporary.Timeout())
	_, direct := got.err.(net.Error) //nolint:errorlint // servers look at it so
	require.True(t, direct)
	var rejected *core.RejectedError
	require.ErrorAs(t, got.err, &rejected)
	require.Equal(t, "places", rejected.Limiter)
	require.Equal(t, 9, pace.Available(), "its permit was refunded")
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, first.Close())
	h.dial()
	require.NoError(t, (<-accepting(l)).err)
}

func TestBandwidthIsSharedAndOfEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		var given []net.Conn
		l := listen(t, h, ioreader.ListenerOptions{
			Write: bucketOf(t, 10, 1, 10*time.Millisecond), // 100 B/s for all
			PerConn: func(c net.Conn) ioreader.ConnOptions {
				given = append(given, c)
				return ioreader.ConnOptions{Write: bucketOf(t, 10, 1, 15*time.Millisecond)} // 67 B/s
			},
		})
		begun := time.Now()
		var done []<-chan outcome
		for range 3 {
			client := h.dial()
			drain(client)
			c := <-accepting(l)
			require.NoError(t, c.err)
			t.Cleanup(func() { c.Close() })
			done = append(done, writing(c, make([]byte, 100)))
			if len(done) == 1 {
				require.NoError(t, (<-done[0]).err)
				require.Equal(t, 90*15*time.Millisecond, time.Since(begun), "alone it has its own bandwidth")
				time.Sleep(time.Second) // what all share is full again
				begun = time.Now()
			}
		}
		require.Len(t, given, 3)
		require.NoError(t, (<-done[1]).err)
		require.NoError(t, (<-done[2]).err)
		require.Equal(t, 190*10*time.Millisecond, time.Since(begun), "two share what all have")
	})
}

func TestAPerConnThatPanicsLeavesNothingBehind(t *testing.T) {
	places, h := semaphore(t, 1), newHall()
	l := listen(t, h, ioreader.ListenerOptions{Conns: places, PerConn: func(net.Conn) ioreader.ConnOptions { panic("no") }})
	client := h.dial()
	require.Panics(t, func() { _, _ = l.Accept() })
	require.Equal(t, 1, places.Available())
	_, err := client.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestAListenerNeedsAListener(t *testing.T) {
	_, err := ioreader.NewListener(nil, ioreader.ListenerOptions{})
	require.ErrorContains(t, err, "nil net.Listener")
}

func TestAnAcceptThatFailsHoldsNothing(t *testing.T) {
	cause := errors.New("out of descriptors")
	places := semaphore(t, 1)
	l := listen(t, broken{newHall(), cause}, ioreader.ListenerOptions{Conns: places})
	_, err := l.Accept()
	require.Equal(t, cause, err)
	require.Equal(t, 1, places.Available())
}

type broken struct {
	net.Listener
	err error
}

func (b broken) Accept() (net.Conn, error) { return nil, b.err }
