package ioreader

import (
	"context"
	"fmt"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
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
		if err := o.validate("ConnOptions of PerConn"); err != nil {
			return nil, &perConnError{err}
		}
	}
	var err error
	if o.Read, err = both(o.Read, b.read); err != nil {
		return nil, &perConnError{fmt.Errorf(notCombined, "Read", err)}
	}
	if o.Write, err = both(o.Write, b.write); err != nil {
		return nil, &perConnError{fmt.Errorf(notCombined, "Write", err)}
	}
	return newConn(under, o, place), nil
}

// perConnError is the error of a connection with a limiter that PerConn must not return: a chain that contains the shared
// one, or a nil pointer. All connections have it, so Accept returns it.
type perConnError struct{ error }

func (e *perConnError) Unwrap() error { return e.error }

const notCombined = "ioreader: PerConn returned a %s limiter that cannot be combined with the shared one: %w"

// both returns a chain of the two limiters, or the one that is not nil. The connection's own limiter
// comes first, so that a connection waiting for it holds no permits of the shared one.
func both(own, shared core.Limiter) (core.Limiter, error) {
	switch {
	case backdoor.IsNil(own):
		return shared, nil
	case backdoor.IsNil(shared) || backdoor.Same(own, shared):
		return own, nil
	}
	return core.Chain(own, shared)
}

// permit waits for one permit of from, whatever its QueueLimit, until ctx or s ends. If from is nil, the lease is not acquired.
func permit(ctx context.Context, s *wait.Source, from core.Limiter) (core.Lease, error) {
	if backdoor.IsNil(from) {
		return core.Lease{}, nil
	}
	return hold.AcquireWaiting(ctx, s, from, 1)
}
