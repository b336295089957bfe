package ioreader

import (
	"errors"
	"fmt"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/acquire"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/linked"
)

// ListenerOptions are the limits of a listener. Every field may be nil: no limit.
type ListenerOptions struct {
	Accept core.Limiter // a permit for each connection that is accepted: how fast
	Conns  core.Limiter // a permit for each connection, held until it is closed: how many

	// Bandwidth shared by all connections, in bytes: what they receive, what they send.
	Read, Write core.Limiter

	// PerConn returns the bandwidth of one connection, beside the shared one. It is given
	// the connection underneath, and is called by Accept. A connection for which it returns
	// an error is closed, and Accept takes the next.
	PerConn func(net.Conn) (ConnOptions, error)
}

// NewListener returns a listener over l whose connections have limits. A nil l is an
// error.
//
// Accept takes a connection from l, and then waits for the permits of Accept and of
// Conns, in that order, before it returns it; so a listener that nobody calls holds no
// place, and several listeners can share their limits. If one of them refuses, for
// whatever reason, or PerConn does, that connection is closed and Accept takes the next:
// a server never sees an error for it. The limiters count their refusals.
//
// Closing the listener ends the wait with [net.ErrClosed] and closes the connection that
// waited. Once the limiter Accept or Conns is closed, no connection is admitted: the
// next is closed, and Accept returns [core.ErrClosed].
//
// Its connections are those of [NewConn], their permits of the shared limiters and their
// own taken together.
func NewListener(l net.Listener, o ListenerOptions) (net.Listener, error) {
	if l == nil {
		return nil, errors.New("ioreader: NewListener of a nil net.Listener")
	}
	return &listener{
		Listener:  l,
		accept:    o.Accept,
		conns:     o.Conns,
		bandwidth: bandwidth{o.Read, o.Write, o.PerConn},
	}, nil
}

type listener struct {
	net.Listener
	accept, conns core.Limiter
	bandwidth     bandwidth
	source        linked.Source // ends an Accept that waits
}

// Accept returns the next connection that the limits allow.
func (l *listener) Accept() (net.Conn, error) {
	for {
		under, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, err := l.admit(under)
		switch {
		case err == nil:
			return c, nil
		case l.source.Cause() != nil:
			return nil, net.ErrClosed
		case errors.Is(err, errNoPlaces):
			return nil, core.ErrClosed
		}
	}
}

// errNoPlaces is the refusal of a limiter that is closed, and not PerConn's.
var errNoPlaces = errors.New("ioreader: a limiter of the listener is closed")

// admit waits until the limits allow one connection more, and puts it under them. If they
// refuse, it is closed.
func (l *listener) admit(under net.Conn) (c net.Conn, err error) {
	var place core.Lease
	defer func() {
		if c == nil { // a limiter or PerConn may have panicked
			place.Release()
			_ = under.Close()
		}
	}()
	pace, err := l.permit(l.accept)
	if err != nil {
		return nil, err
	}
	pace.Release() // before the next wait: both limits may be one limiter
	if place, err = l.permit(l.conns); err != nil {
		if pace.Acquired() {
			limiter.Refund(l.accept, pace)
		}
		return nil, err
	}
	return l.bandwidth.limit(under, place)
}

// permit waits for one permit, for as long as the listener is open.
func (l *listener) permit(from core.Limiter) (core.Lease, error) {
	if argument.IsNil(from) {
		return core.Lease{}, nil
	}
	lease, err := acquire.Acquire(background, &l.source, from, 1)
	if errors.Is(err, core.ErrClosed) {
		err = errNoPlaces
	}
	return lease, err
}

// Close stops listening and ends an Accept that waits.
func (l *listener) Close() error {
	l.source.End(net.ErrClosed)
	return l.Listener.Close()
}

// String says where it listens.
func (l *listener) String() string { return fmt.Sprintf("throttled listener on %v", l.Addr()) }
