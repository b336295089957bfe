package ioreader

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/limit/meter"
	"github.com/sluice-go/sluice/internal/wait"
)

// limits are the limiters of the connections of a dialer or a listener.
type limits DialerOptions

// validate returns an error that names all limiters that hold a nil pointer.
func (l *limits) validate(options string) error {
	return errors.Join(
		meter.Check("ioreader: "+options+".Conns", l.Conns),
		ConnOptions{l.Read, l.Write}.validate(options),
	)
}

// limit returns a throttled connection, which releases place when it is closed.
func (l *limits) limit(under net.Conn, place core.Lease) (net.Conn, error) {
	var own ConnOptions
	if l.PerConn != nil {
		var err error
		if own, err = l.PerConn(under); err != nil {
			return nil, err
		}
	}
	read, e1 := both("Read", own.Read, l.Read)
	write, e2 := both("Write", own.Write, l.Write)
	if err := errors.Join(e1, e2); err != nil {
		return nil, &perConnError{err}
	}
	return newConn(under, ConnOptions{read, write}, place), nil
}

// perConnError is the error of a connection with a limiter that PerConn must not return: a chain that contains the shared
// one, or a nil pointer. All connections have it, so Accept returns it.
type perConnError struct{ error }

func (e *perConnError) Unwrap() error { return e.error }

// both returns a chain of the two limiters, or the one that is not nil. The connection's own limiter
// comes first, so that a connection waiting for it holds no permits of the shared one.
func both(field string, own, shared core.Limiter) (core.Limiter, error) {
	if err := meter.Check("ioreader: ConnOptions of PerConn."+field, own); err != nil {
		return nil, err
	}
	switch {
	case own == nil:
		return shared, nil
	case shared == nil || backdoor.Same(own, shared):
		return own, nil
	}
	chain, err := core.Chain(own, shared)
	if err != nil {
		return nil, fmt.Errorf("ioreader: PerConn returned a %s limiter that cannot be combined with the shared one: %w", field, err)
	}
	return chain, nil
}

// permit waits for one permit of from, whatever its QueueLimit, until ctx or s ends. If from is nil, the lease is not acquired.
func permit(ctx context.Context, s *wait.Source, from core.Limiter) (core.Lease, error) {
	if from == nil {
		return core.Lease{}, nil
	}
	return hold.Acquire(ctx, s, from, 1, true)
}
