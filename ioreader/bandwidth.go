package ioreader

import (
	"context"
	"net"
	"reflect"

	"github.com/sluice-go/sluice/core"
)

// bandwidth is what the connections of a listener or a dialer may use, in bytes.
type bandwidth struct {
	read, write core.Limiter // shared by all
	perConn     func(net.Conn) (ConnOptions, error)
}

// limit returns a connection over the one underneath, which gives the place back when it
// is closed.
func (b *bandwidth) limit(under net.Conn, place core.Lease) (net.Conn, error) {
	var o ConnOptions
	if b.perConn != nil {
		var err error
		if o, err = b.perConn(under); err != nil {
			return nil, err
		}
	}
	var err error
	if o.Read, err = both(o.Read, b.read); err != nil {
		return nil, err
	}
	if o.Write, err = both(o.Write, b.write); err != nil {
		return nil, err
	}
	return newConn(under, o, place), nil
}

// both returns a limiter that asks both, a connection's own before the shared one, which is
// dearer to hold; or the one that there is.
func both(own, shared core.Limiter) (core.Limiter, error) {
	switch {
	case isNil(own):
		return shared, nil
	case isNil(shared) || same(own, shared):
		return own, nil
	}
	c, err := core.Chain(own, shared)
	if err == nil && kindOf(own) == timed && kindOf(shared) == timed {
		return &timedChain{c}, nil
	}
	return c, err
}

// timedChain is a chain of limiters whose leases hold nothing. What its leases tell of
// the rate is the first one's.
type timedChain struct{ *core.ChainedLimiter }

// same reports whether a and b are one limiter, of which no call waits for two leases.
func same(a, b core.Limiter) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// permit waits for one permit.
func permit(ctx context.Context, from core.Limiter) (core.Lease, error) {
	lease, err := from.Acquire(ctx, 1)
	if err == nil && !lease.Acquired() { // somebody else's limiter, and careless
		if err = lease.Err(); err == nil {
			err = core.ErrRejected
		}
	}
	return lease, err
}
