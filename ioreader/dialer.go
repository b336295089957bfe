package ioreader

import (
	"context"
	"errors"
	"net"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// DialFunc is the type of [net.Dialer.DialContext] and of http.Transport.DialContext.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// DialerOptions are the limiters of a dialer. A nil field means no limit.
type DialerOptions struct {
	// Conns limits the open connections; each holds one permit from before the dial until it is
	// closed.
	//
	// The idle connections of an http.Transport hold permits too: up to two per host (MaxIdleConnsPerHost), until
	// IdleConnTimeout, or forever if that is not set. If the
	// connections of some hosts hold all permits, the dial of another host waits for that long. Set
	// Transport.MaxIdleConns to less than the limit: the transport then closes the connection that
	// has been idle longest.
	Conns core.Limiter

	// Read and Write limit the bytes that all connections together receive and send.
	Read, Write core.Limiter

	// PerConn returns the limiters of one connection, which apply in addition to Read and
	// Write: they must not be chains that contain these. Its argument is the underlying
	// connection. If it returns an error, the connection is closed and the dial returns that
	// error. It may be nil.
	PerConn func(net.Conn) (ConnOptions, error)
}

// NewDialer returns a function that dials with dial and limits the connections, or an error that
// lists all invalid options: a nil dial, and limiters that hold a nil pointer.
//
//	dial, err := ioreader.NewDialer((&net.Dialer{}).DialContext, ioreader.DialerOptions{Read: limiter})
//	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
//
// A call waits for a permit of o.Conns, whatever its QueueLimit, and then dials, so a connection that is
// being dialed counts as open. If o.Conns rejects the request, its error is returned unchanged. When ctx is done, also
// before the call, the error is ctx.Err(). A call that fails holds no permit. The function is safe for concurrent
// use if dial is.
//
// The connections behave like those of [NewConn]. If PerConn returns a limiter, each byte needs a
// permit of that limiter and one of the shared limiter.
func NewDialer(dial DialFunc, o DialerOptions) (DialFunc, error) {
	if dial == nil {
		return nil, errors.New("ioreader: NewDialer of a nil DialFunc")
	}
	d := &dialer{dial, limits(o)}
	if err := d.limits.validate("DialerOptions"); err != nil {
		return nil, err
	}
	return d.dialContext, nil
}

type dialer struct {
	dial   DialFunc
	limits limits
}

func (d *dialer) dialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	place, err := permit(ctx, nil, d.limits.Conns)
	if err != nil {
		return nil, err
	}
	var under net.Conn
	defer func() {
		if c != nil {
			return
		}
		place.Release()             // an error, or a panic of dial or PerConn
		if !backdoor.IsNil(under) { // tls.Dial returns a nil *tls.Conn with its error
			_ = under.Close()
		}
	}()
	if under, err = d.dial(ctx, network, address); err != nil {
		return nil, err
	}
	if backdoor.IsNil(under) {
		return nil, errors.New("ioreader: the DialFunc returned neither a connection nor an error")
	}
	return d.limits.limit(under, place)
}
