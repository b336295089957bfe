package ioreader_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// TestLimitersThatHoldANilPointer has an error for each of them, which would count as no limit.
func TestLimitersThatHoldANilPointer(t *testing.T) {
	bucket, window, chain := (*core.TokenBucket)(nil), (*core.FixedWindow)(nil), (*core.ChainedLimiter)(nil)
	const want = ", want a limiter, or nil for none"
	_, err := ioreader.NewConn(slow{}, ioreader.ConnOptions{Read: bucket, Write: chain})
	require.EqualError(t, err, "ioreader: ConnOptions.Read is a nil *core.TokenBucket"+want+"\n"+
		"ioreader: ConnOptions.Write is a nil *core.ChainedLimiter"+want)
	_, err = ioreader.NewListener(broken{}, ioreader.ListenerOptions{Accept: bucket, Conns: window, Read: chain, Write: bucket})
	require.EqualError(t, err, "ioreader: ListenerOptions.Accept is a nil *core.TokenBucket"+want+"\n"+
		"ioreader: ListenerOptions.Conns is a nil *core.FixedWindow"+want+"\n"+
		"ioreader: ListenerOptions.Read is a nil *core.ChainedLimiter"+want+"\n"+
		"ioreader: ListenerOptions.Write is a nil *core.TokenBucket"+want)
	_, err = ioreader.NewDialer(new(net.Dialer).DialContext, ioreader.DialerOptions{Conns: window})
	require.EqualError(t, err, "ioreader: DialerOptions.Conns is a nil *core.FixedWindow"+want)
	_, err = ioreader.Copy(t.Context(), io.Discard, strings.NewReader("x"), ioreader.CopyOptions{Limiter: window, BufferSize: -1})
	require.EqualError(t, err, "ioreader: CopyOptions.Limiter is a nil *core.FixedWindow"+want+"\n"+
		"ioreader: CopyOptions.BufferSize = -1, want at least 0")

	wrong := func(net.Conn) (ioreader.ConnOptions, error) { return ioreader.ConnOptions{Write: bucket}, nil }
	dial, peers := dialing(t, ioreader.DialerOptions{PerConn: wrong})
	_, err = dial(t.Context(), "tcp", "anywhere")
	require.ErrorContains(t, err, "PerConn.Write is a nil *core.TokenBucket")
	_, err = (<-peers).Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "the connection is closed")
	a, _ := net.Pipe()
	l, err := ioreader.NewListener(one{a}, ioreader.ListenerOptions{PerConn: wrong})
	require.NoError(t, err)
	_, err = l.Accept()
	require.ErrorContains(t, err, "PerConn.Write is a nil *core.TokenBucket")
}

// one is a listener with a connection.
type one struct{ net.Conn }

func (o one) Accept() (net.Conn, error) { return o.Conn, nil }

func (one) Addr() net.Addr { return nil }

// A dial that ends in tls.Dial returns a nil *tls.Conn with its error.
func TestADialThatReturnsANilConnection(t *testing.T) {
	cause := errors.New("cause")
	places := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1}))
	for _, want := range []error{cause, nil} {
		dial, err := ioreader.NewDialer(func(context.Context, string, string) (net.Conn, error) {
			return (*tls.Conn)(nil), want
		}, ioreader.DialerOptions{Conns: places})
		require.NoError(t, err)
		c, err := dial(t.Context(), "tcp", "anywhere")
		require.Nil(t, c)
		if want == nil {
			require.ErrorContains(t, err, "neither a connection nor an error")
		} else {
			require.Equal(t, want, err)
		}
		require.Equal(t, 1, places.Available())
	}
}

// TestAListenerThatReturnsANilConnection has a listener whose Accept ends like that dial.
func TestAListenerThatReturnsANilConnection(t *testing.T) {
	for _, c := range []net.Conn{nil, (*tls.Conn)(nil)} {
		l, err := ioreader.NewListener(one{c}, ioreader.ListenerOptions{Conns: semaphore(t, 1)})
		require.NoError(t, err)
		_, err = l.Accept()
		require.ErrorContains(t, err, "neither a connection nor an error")
	}
}

// layer is a connection over another one.
type layer struct {
	sinkConn

	under net.Conn
}

func (l layer) NetConn() net.Conn { return l.under }

// TestAConnectionOverANilConnection has connections that have no other one underneath yet.
func TestAConnectionOverANilConnection(t *testing.T) {
	for _, under := range []net.Conn{nil, (*tls.Conn)(nil), layer{under: (*tls.Conn)(nil)}} {
		c, err := ioreader.NewConn(layer{sinkConn{w: io.Discard}, under}, ioreader.ConnOptions{Write: semaphore(t, 1)})
		require.NoError(t, err)
		n, err := c.Write([]byte("abc"))
		require.NoError(t, err)
		require.Equal(t, 3, n)
	}
}

func TestADialWithADoneContext(t *testing.T) {
	for _, conns := range []core.Limiter{nil, semaphore(t, 1)} {
		dial, peers := dialing(t, ioreader.DialerOptions{Conns: conns})
		_, err := dial(canceled(t.Context()), "tcp", "anywhere")
		require.Equal(t, context.Canceled, err)
		require.Empty(t, peers)
	}
}
