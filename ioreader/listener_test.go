package ioreader_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
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
		start := time.Now()
		for i := range 5 {
			h.dial()
			got := <-accepting(l)
			require.NoError(t, got.err)
			require.Equal(t, time.Duration(max(i-1, 0))*time.Second, got.at.Sub(start))
		}
	})
}

func TestAnAcceptEndsWithItsListenerOrLimiter(t *testing.T) {
	accept := func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Accept: l} }
	conns := func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Conns: l} }
	for name, c := range map[string]struct {
		options func(core.Limiter) ioreader.ListenerOptions
		end     func(net.Listener, *core.ConcurrencyLimiter) error
		want    error
	}{
		"waits for a permit, listener closed": {accept, func(l net.Listener, _ *core.ConcurrencyLimiter) error { return l.Close() }, net.ErrClosed},
		"waits for a place, listener closed":  {conns, func(l net.Listener, _ *core.ConcurrencyLimiter) error { return l.Close() }, net.ErrClosed},
		"waits for a permit, limiter closed":  {accept, func(_ net.Listener, l *core.ConcurrencyLimiter) error { return l.Close() }, core.ErrClosed},
		"waits for a place, limiter closed":   {conns, func(_ net.Listener, l *core.ConcurrencyLimiter) error { return l.Close() }, core.ErrClosed},
	} {
		testkit.Bubble(t, name, func(t *testing.T) {
			limiter, h := semaphore(t, 1), newHall()
			taken := limiter.TryAcquire(1)
			l := listen(t, h, c.options(limiter))
			ends := func() {
				client, start := h.dial(), time.Now()
				done := accepting(l)
				synctest.Wait()
				require.NoError(t, c.end(l, limiter))
				got := <-done
				require.ErrorIs(t, got.err, c.want)
				require.Nil(t, got.Conn)
				require.Equal(t, start, got.at)
				_, err := client.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err, "it was closed")
			}
			ends()
			if errors.Is(c.want, core.ErrClosed) {
				ends() // the limiter was closed before
			}
			taken.Release()
			require.Equal(t, 1, limiter.Available())
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, newHall(), ioreader.ListenerOptions{})
		done := accepting(l) // waits for a client
		synctest.Wait()
		require.NoError(t, l.Close())
		require.ErrorIs(t, (<-done).err, net.ErrClosed)
	})
}

func TestARefusedConnectionIsClosedAndAcceptTakesTheNext(t *testing.T) {
	down := errors.New("the store is down")
	for name, refuse := range map[string]func(*ioreader.ListenerOptions, *limiterOf){
		"Conns":                 func(o *ioreader.ListenerOptions, l *limiterOf) { o.Conns = l },
		"Accept":                func(o *ioreader.ListenerOptions, l *limiterOf) { o.Accept = l },
		"Conns with any error":  func(o *ioreader.ListenerOptions, l *limiterOf) { o.Conns, l.err = l, down },
		"Accept with any error": func(o *ioreader.ListenerOptions, l *limiterOf) { o.Accept, l.err = l, down },
		"PerConn": func(o *ioreader.ListenerOptions, l *limiterOf) {
			o.PerConn = func(net.Conn) (ioreader.ConnOptions, error) {
				_, err := l.Acquire(t.Context(), 1)
				return ioreader.ConnOptions{}, err
			}
		},
		"PerConn with an error of a closed limiter": func(o *ioreader.ListenerOptions, l *limiterOf) {
			o.PerConn = func(net.Conn) (ioreader.ConnOptions, error) {
				if _, err := l.Acquire(t.Context(), 1); err != nil {
					return ioreader.ConnOptions{}, core.ErrClosed
				}
				return ioreader.ConnOptions{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pace, places, h := bucketOf(t, 10, 1, time.Hour), semaphore(t, 10), newHall()
				refusing := &limiterOf{refusals: 3}
				o := ioreader.ListenerOptions{Conns: places, Accept: pace}
				refuse(&o, refusing)
				l := listen(t, h, o)
				var clients []net.Conn
				for range 4 {
					clients = append(clients, h.dial())
				}
				start := time.Now()
				got := <-accepting(l)
				require.NoError(t, got.err)
				require.Equal(t, start, got.at)
				for _, c := range clients[:3] {
					_, err := c.Read(make([]byte, 1))
					require.Equal(t, io.EOF, err, "it was closed")
				}
				sent := writing(got, []byte("a"))
				_, err := clients[3].Read(make([]byte, 1))
				require.NoError(t, err)
				require.NoError(t, (<-sent).err)
				if o.Accept == pace && o.PerConn == nil {
					require.Equal(t, 9, pace.Available(), "the permits of the refused were refunded")
				}
				if o.Conns == places {
					require.Equal(t, 9, places.Available())
				}
				require.NoError(t, got.Close())
			})
		})
	}
}

// limiterOf refuses so many times, and then grants.
type limiterOf struct {
	refusals int
	err      error // nil: a rejection
}

func (l *limiterOf) TryAcquire(permits int) core.Lease {
	if l.refusals > 0 {
		l.refusals--
		return core.Reject()
	}
	return core.Grant(permits, nil)
}

func (l *limiterOf) Acquire(_ context.Context, permits int) (core.Lease, error) {
	lease := l.TryAcquire(permits)
	if !lease.Acquired() && l.err != nil {
		return core.Fail(l.err), l.err
	}
	return lease, lease.Err()
}

func (*limiterOf) Available() int { return 1 }

func TestAcceptAndConnsMayBeOneLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, h := semaphore(t, 1), newHall()
		l := listen(t, h, ioreader.ListenerOptions{Accept: one, Conns: one})
		h.dial()
		got := <-accepting(l)
		require.NoError(t, got.err)
		require.Zero(t, one.Available())
		require.NoError(t, got.Close())
	})
}

func TestPerConnMayReturnWhatAllShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, h := semaphore(t, 10), newHall()
		l := listen(t, h, ioreader.ListenerOptions{
			Write:   shared,
			PerConn: func(net.Conn) (ioreader.ConnOptions, error) { return ioreader.ConnOptions{Write: shared}, nil },
		})
		drain(h.dial())
		got := <-accepting(l)
		require.NoError(t, got.err)
		_, err := got.Write(make([]byte, 100))
		require.NoError(t, err)
		require.NoError(t, got.Close())
	})
}

// TestLimitersThatCannotBeCombined: the mistake concerns every connection, so Accept returns it.
func TestLimitersThatCannotBeCombined(t *testing.T) {
	shared := perSecond(t, 1000)
	chain := core.Must(core.Chain(perSecond(t, 100), shared))
	for name, own := range map[string]ioreader.ConnOptions{"Read": {Read: chain}, "Write": {Write: chain}} {
		places, h := semaphore(t, 1), newHall()
		l := listen(t, h, ioreader.ListenerOptions{
			Read: shared, Write: shared, Conns: places,
			PerConn: func(net.Conn) (ioreader.ConnOptions, error) { return own, nil },
		})
		client := h.dial()
		_, err := l.Accept()
		require.ErrorContains(t, err, "PerConn returned a "+name+" limiter")
		require.ErrorContains(t, err, "asks the same limiter")
		require.Equal(t, 1, places.Available())
		_, err = client.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	}
}

func TestBandwidthIsSharedAndOfEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall()
		var given []net.Conn
		l := listen(t, h, ioreader.ListenerOptions{
			Write: bucketOf(t, 10, 1, 10*time.Millisecond), // 100 B/s for all
			PerConn: func(c net.Conn) (ioreader.ConnOptions, error) {
				given = append(given, c)
				return ioreader.ConnOptions{Write: bucketOf(t, 10, 1, 15*time.Millisecond)}, nil // 67 B/s
			},
		})
		start := time.Now()
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
				require.Equal(t, 90*15*time.Millisecond, time.Since(start), "alone it has its own bandwidth")
				time.Sleep(time.Second) // what all share is full again
				start = time.Now()
			}
		}
		require.Len(t, given, 3)
		require.NoError(t, (<-done[1]).err)
		require.NoError(t, (<-done[2]).err)
		require.Equal(t, 190*10*time.Millisecond, time.Since(start), "two share what all have")
	})
}

func TestAPerConnThatPanicsLeavesNothingBehind(t *testing.T) {
	places, h := semaphore(t, 1), newHall()
	l := listen(t, h, ioreader.ListenerOptions{Conns: places, PerConn: func(net.Conn) (ioreader.ConnOptions, error) { panic("no") }})
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
