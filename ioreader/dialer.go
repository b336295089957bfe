package ioreader

import (
	"context"
	"errors"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// DialFunc dials: it is the type of [net.Dialer.DialContext], and what http.Transport takes.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// DialerOptions are the limits of a dialer. Every field may be nil: no limit.
type DialerOptions struct {
	Conns core.Limiter // a permit for each connection, held until it is closed: how many

	// Bandwidth shared by all connections, in bytes: what they receive, what they send.
	Read, Write core.Limiter

	// PerConn returns the bandwidth of one connection, beside the shared one. It is given
	// the connection underneath. If it returns an error, the connection is closed, and the
	// error is the dial's.
	PerConn func(net.Conn) (ConnOptions, error)
}

// NewDialer returns a function that dials as dial does, and whose connections have limits.
// A nil dial is an error.
//
//	dial, err := ioreader.NewDialer((&net.Dialer{}).DialContext, ioreader.DialerOptions{Read: limiter})
//	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
//
// A call waits for the permit of Conns first, and then dials; so connections on their way
// count. The refusal by Conns is the call's error, unchanged. A ctx that is done ends the
// wait with ctx.Err(); what it does to dial is dial's affair. A call that fails holds
// nothing. The function is safe for concurrent use if dial is.
//
// Its connections are those of [NewConn], their permits of the shared limiters and their
// own taken together.
func NewDialer(dial DialFunc, o DialerOptions) (DialFunc, error) {
	if dial == nil {
		return nil, errors.New("ioreader: NewDialer of a nil DialFunc")
	}
	d := &dialer{dial, o.Conns, bandwidth{o.Read, o.Write, o.PerConn}}
	return d.dialContext, nil
}

type dialer struct {
	dial      DialFunc
	conns     core.Limiter
	bandwidth bandwidth
}

func (d *dialer) dialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	var place core.Lease
	if !argument.IsNil(d.conns) {
		if place, err = permit(ctx, d.conns); err != nil {
			return nil, err
		}
	}
	var under net.Conn
	defer func() {
		if c != nil {
			return
		}
		place.Release() // dial or PerConn may have panicked
		if under != nil {
			_ = under.Close()
		}
	}()
	if under, err = d.dial(ctx, network, address); err != nil {
		return nil, err
	}
	if under == nil {
		return nil, errors.New("ioreader: the DialFunc returned neither a connection nor an error")
	}
	return d.bandwidth.limit(under, place) //nolint:contextcheck // the connection outlives the dial
}
