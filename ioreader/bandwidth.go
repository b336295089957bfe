package ioreader

import (
	"context"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/meter"
)

// bandwidth holds the limiters for the bytes of a listener's or a dialer's connections.
type bandwidth struct {
	read, write core.Limiter // shared by all connections
	perConn     func(net.Conn) (ConnOptions, error)
}

// limit returns a throttled connection, which releases place when it is closed.
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

// both returns a chain of the two limiters, or the one that is not nil. The connection's own limiter
// comes first, so that a connection waiting for it holds no permits of the shared one.
func both(own, shared core.Limiter) (core.Limiter, error) {
	switch {
	case argument.IsNil(own):
		return shared, nil
	case argument.IsNil(shared) || meter.Same(own, shared):
		return own, nil
	}
	return core.Chain(own, shared)
}

// permit waits for one permit of from.
func permit(ctx context.Context, from core.Limiter) (core.Lease, error) {
	lease, err := from.Acquire(ctx, 1)
	return limiter.Checked(from, lease, err)
}
