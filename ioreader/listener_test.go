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
				start := time.Now()
				done := accepting(l)
				synctest.Wait()
				require.NoError(t, l.Close())
				got := <-done
				require.ErrorIs(t, got.err, net.ErrClosed)
				require.Nil(t, got.Conn)
				require.Equal(t, start, got.at)
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

func TestAListenerWhoseLimiterIsClosedSaysSo(t *testing.T) {
	for name, of := range map[string]func(core.Limiter) ioreader.ListenerOptions{
		"Accept": func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Accept: l} },
		"Conns":  func(l core.Limiter) ioreader.ListenerOptions { return ioreader.ListenerOptions{Conns: l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, h := semaphore(t, 1), newHall()
				l := listen(t, h, of(limiter))
				require.True(t, limiter.TryAcquire(1).Acquired())
				for range 2 { // one waits, the other comes later
					client := h.dial()
					done := accepting(l)
					synctest.Wait()
					require.NoError(t, limiter.Close())
					require.Equal(t, core.ErrClosed, (<-done).err)
					_, err := client.Read(make([]byte, 1))
					require.Equal(t, io.EOF, err)
				}
			})
		})
	}
}

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
