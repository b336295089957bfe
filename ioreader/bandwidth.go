package ioreader

import (
	"context"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/internal/meter"
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
	case argument.IsNil(own):
		return shared, nil
	case argument.IsNil(shared) || meter.Same(own, shared):
		return own, nil
	}
	return core.Chain(own, shared)
}

// permit waits for one permit.
func permit(ctx context.Context, from core.Limiter) (core.Lease, error) {
	lease, err := from.Acquire(ctx, 1)
	return limiter.Checked(from, lease, err)
}
