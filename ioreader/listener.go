package ioreader

import (
	"errors"
	"net"

	"github.com/sluice-go/sluice/core"
)

// ListenerOptions are the limits of a listener. Every field may be nil: no limit.
type ListenerOptions struct {
	Accept core.Limiter // a permit for each connection that is accepted: how fast
	Conns  core.Limiter // a permit for each connection, held until it is closed: how many

	// Bandwidth shared by all connections, in bytes: what they receive, what they send.
	Read, Write core.Limiter

	// PerConn returns the bandwidth of one connection, beside the shared one. It is given
	// the connection underneath, and is called by Accept.
	PerConn func(net.Conn) ConnOptions
}

// NewListener returns a listener over l whose connections have limits. A nil l is an
// error.
//
// Accept takes a connection from l, and then waits for the permits of Accept and of
// Conns, in that order, before it returns it; so a listener that nobody calls holds no
// place, and several listeners can share their limits. Closing the listener ends the wait
// with [net.ErrClosed], and closes the connection that waited. If a limiter refuses, the
// connection is closed too, and the error is a [net.Error] that says it is temporary, as
// servers want it to go on, and wraps the *[core.RejectedError].
//
// Its connections are those of [NewConn], their permits of the shared limiters and their
// own taken together.
func NewListener(l net.Listener, o ListenerOptions) (net.Listener, error) {
	if l == nil {
		return nil, errors.New("ioreader: NewListener of a nil net.Listener")
	}
	return &listener{Listener: l, options: o, ending: newLoneEnding()}, nil
}

type listener struct {
	net.Listener
	options ListenerOptions
	ending  *ending
}

// Accept returns the next connection that the limits allow.
func (l *listener) Accept() (c net.Conn, err error) {
	under, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var lease core.Lease
	defer func() {
		if c == nil { // PerConn may have panicked
			lease.Release()
			_ = under.Close()
		}
	}()
	if lease, err = l.admit(); err != nil {
		return nil, err
	}
	return newConn(under, l.bandwidth(under), lease), nil
}

// admit waits until one more connection may be had, and returns its place.
func (l *listener) admit() (core.Lease, error) {
	pace, err := l.permit(l.options.Accept)
	if err != nil {
		return core.Lease{}, err
	}
	place, err := l.permit(l.options.Conns)
	if err != nil {
		if r, ok := l.options.Accept.(core.Refunder); ok && pace.Acquired() {
			r.Refund(pace)
			return core.Lease{}, err
		}
	}
	pace.Release()
	return place, err
}

func (l *listener) permit(from core.Limiter) (core.Lease, error) {
	if isNil(from) {
		return core.Lease{}, nil
	}
	lease, err := from.Acquire(l.ending, 1)
	switch {
	case err == nil:
		return lease, lease.Err()
	case l.ending.ended():
		return core.Lease{}, net.ErrClosed
	case errors.Is(err, core.ErrRejected):
		return core.Lease{}, &refusedError{err}
	}
	return core.Lease{}, err
}

// bandwidth returns the limits of a connection: its own before the shared ones, which are
// dearer to hold.
func (l *listener) bandwidth(under net.Conn) ConnOptions {
	var own ConnOptions
	if l.options.PerConn != nil {
		own = l.options.PerConn(under)
	}
	return ConnOptions{Read: both(own.Read, l.options.Read), Write: both(own.Write, l.options.Write)}
}

// both returns a limiter that asks both, or the one that there is.
func both(own, shared core.Limiter) core.Limiter {
	switch {
	case isNil(own):
		return shared
	case isNil(shared):
		return own
	}
	c, err := core.Chain(own, shared)
	if err != nil {
		panic(err) // neither is nil, and Chain knows no other error
	}
	if kindOf(own) == timed && kindOf(shared) == timed {
		return &timedChain{c}
	}
	return c
}

// timedChain is a chain of limiters whose leases hold nothing. What its leases tell of
// the rate is the first one's.
type timedChain struct{ *core.ChainedLimiter }

// Close stops listening and ends an Accept that waits.
func (l *listener) Close() error {
	l.ending.end(net.ErrClosed)
	return l.Listener.Close()
}

// refusedError is a rejection as servers expect an error of Accept to be.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "ioreader: accept: " + e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// Timeout implements [net.Error].
func (*refusedError) Timeout() bool { return false }

// Temporary implements [net.Error]: the next connection may be accepted.
func (*refusedError) Temporary() bool { return true }
