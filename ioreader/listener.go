package ioreader

import (
	"errors"
	"fmt"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/wait"
)

// ListenerOptions are the limiters of a listener. A nil field means no limit.
type ListenerOptions struct {
	// Accept limits the rate of accepted connections, with one permit for each, and Conns the open
	// connections, each of which holds one permit until it is closed. A connection waits for its permits,
	// whatever the QueueLimit, and so do all connections behind it.
	Accept, Conns core.Limiter

	// Read and Write limit the bytes that all connections together receive and send.
	Read, Write core.Limiter

	// PerConn returns the limiters of one connection, which apply in addition to Read and
	// Write: they must not be chains that contain these. Accept calls it with the underlying
	// connection. If it returns an error, Accept closes the connection and takes the next one.
	// It may be nil.
	PerConn func(net.Conn) (ConnOptions, error)
}

// NewListener returns a listener that accepts from l and limits its connections. It returns an
// error if l is nil, or if l or a limiter holds a nil pointer. Wrap the listener below TLS, as in
// tls.NewListener(throttled, config), or use http.Server.ServeTLS: a listener above TLS would hide the *tls.Conn
// from net/http, which then has no HTTP/2.
//
// Accept takes a connection from l, waits for a permit of the limiter o.Accept and then for one of
// o.Conns, and returns the connection. While no Accept call is running, the listener holds no permits
// other than those of its open connections, so several listeners can share limiters. If one of these
// limiters rejects the request or fails, such as one of redislimit without its store, or PerConn returns an
// error, Accept closes the connection and takes the next one, and returns no error. The limiters count the rejections;
// redislimit.Watch reports that a store has failed. If a limiter of PerConn is a
// chain that contains the shared one, Accept closes the connection and returns the error of [core.Chain]. If it holds a nil
// pointer, Accept returns an error too.
//
// Closing the listener ends a waiting Accept with [net.ErrClosed], and closes the connection that
// it has taken from l. After o.Accept or o.Conns is closed, Accept closes the next connection and
// returns [core.ErrClosed].
//
// The connections behave like those of [NewConn]. If PerConn returns a limiter, each byte needs a
// permit of that limiter and one of the shared limiter.
func NewListener(l net.Listener, o ListenerOptions) (net.Listener, error) {
	if backdoor.IsNil(l) {
		return nil, errors.New("ioreader: NewListener of a nil net.Listener")
	}
	throttled := &listener{Listener: l, accept: o.Accept, limits: limits{o.Conns, o.Read, o.Write, o.PerConn}}
	err := errors.Join(meter.Check("ioreader: ListenerOptions.Accept", o.Accept), throttled.limits.validate("ListenerOptions"))
	if err != nil {
		return nil, err
	}
	return throttled, nil
}

type listener struct {
	net.Listener
	accept core.Limiter
	limits limits
	source wait.Source // ends a waiting Accept
}

// Accept returns the next connection that the limiters admit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		under, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if backdoor.IsNil(under) {
			return nil, errors.New("ioreader: the listener returned neither a connection nor an error")
		}
		c, err := l.admit(under)
		var wrong *perConnError
		switch {
		case err == nil:
			return c, nil
		case errors.As(err, &wrong):
			return nil, err
		case l.source.Cause() != nil:
			return nil, net.ErrClosed
		case errors.Is(err, errNoPlaces):
			return nil, core.ErrClosed
		}
	}
}

// errNoPlaces replaces a limiter's core.ErrClosed, to distinguish it from one that PerConn returned.
var errNoPlaces = errors.New("ioreader: a limiter of the listener is closed")

// admit waits for the permits of one connection, and returns it throttled. If it fails, it closes
// the connection.
func (l *listener) admit(under net.Conn) (c net.Conn, err error) {
	var place core.Lease
	defer func() {
		if c == nil { // an error, or a panic of a limiter or PerConn
			place.Release()
			_ = under.Close()
		}
	}()
	pace, err := l.permit(l.accept)
	if err != nil {
		return nil, err
	}
	pace.Release() // before the next wait: both limits may be one limiter
	if place, err = l.permit(l.limits.Conns); err != nil {
		pace.Refund()
		return nil, err
	}
	return l.limits.limit(under, place)
}

// permit waits for one permit, or until the listener is closed.
func (l *listener) permit(from core.Limiter) (core.Lease, error) {
	lease, err := permit(background, &l.source, from)
	if errors.Is(err, core.ErrClosed) {
		err = errNoPlaces
	}
	return lease, err
}

// Close ends a waiting Accept, and closes the underlying listener.
func (l *listener) Close() error {
	l.source.End(net.ErrClosed)
	return l.Listener.Close()
}

// String returns a description of the listener with its address.
func (l *listener) String() string { return fmt.Sprintf("throttled listener on %v", l.Addr()) }
