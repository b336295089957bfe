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

// ListenerOptions are the limiters of a listener. A nil field means no limit.
type ListenerOptions struct {
	Accept core.Limiter // how fast connections are accepted: a permit for each
	Conns  core.Limiter // how many connections are open: each holds a permit until it is closed

	// Read and Write limit the bytes that all connections together receive and send.
	Read, Write core.Limiter

	// PerConn returns the limiters of one connection, which apply in addition to Read and
	// Write. Accept calls it with the connection underneath. If it returns an error, the
	// connection is closed and Accept takes the next one.
	PerConn func(net.Conn) (ConnOptions, error)
}

// NewListener returns a listener that accepts from l and limits its connections. It returns an
// error if l is nil.
//
// Accept takes a connection from l, waits for a permit of the limiter Accept and then for one of
// Conns, and returns the connection. So a listener on which nobody calls Accept holds no permit,
// and several listeners can share limiters. If a limiter refuses, for any reason, or PerConn
// returns an error, that connection is closed and Accept takes the next one: a server sees no
// error. The limiters count what they reject.
//
// Closing the listener ends the wait with [net.ErrClosed] and closes the connection that was
// waiting. Once the limiter Accept or Conns is closed, Accept closes the next connection and
// returns [core.ErrClosed].
//
// The connections are those of [NewConn]. A connection that has limiters of its own takes
// permits of those and of the shared ones together.
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

// Accept returns the next connection that the limiters admit.
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

// errNoPlaces tells a limiter's core.ErrClosed from one that PerConn returned.
var errNoPlaces = errors.New("ioreader: a limiter of the listener is closed")

// admit waits until the limiters admit one connection more, and returns it throttled. If they
// refuse, it closes the connection.
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

// Close stops listening, and ends an Accept that waits.
func (l *listener) Close() error {
	l.source.End(net.ErrClosed)
	return l.Listener.Close()
}

// String describes the listener by its address.
func (l *listener) String() string { return fmt.Sprintf("throttled listener on %v", l.Addr()) }
