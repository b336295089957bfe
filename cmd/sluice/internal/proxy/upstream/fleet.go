package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// dialer makes connections to backends.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func dialBackend(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout, Control: limitUnsent}).DialContext(ctx, network, address)
}

// newFleet returns no backends yet, with the connections that dial makes. Over HTTP/1.1 the limit is that of Writes to the
// backend, of the time from the end of the request to the header of the response, and of each part of the body. Over HTTP/2
// many requests share a connection, which has to respond to pings.
func newFleet(dial dialer, limit time.Duration) *fleet {
	transportOf := func(shared bool) *http.Transport {
		return &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				if err != nil || limit == 0 {
					return c, err
				}
				return &conn{c, limit, shared}, nil
			},
			Protocols:             new(http.Protocols),
			DisableCompression:    true, // what the client accepts is the backend's to see
			MaxIdleConnsPerHost:   512,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   min(cmp.Or(limit, handshakeTime), handshakeTime),
			ExpectContinueTimeout: time.Second,
		}
	}
	f := &fleet{limit: limit, http1: transportOf(false), http2: transportOf(true)}
	f.http1.Protocols.SetHTTP1(true)
	f.http1.ResponseHeaderTimeout = limit
	f.http2.Protocols.SetHTTP2(true)
	f.http2.Protocols.SetUnencryptedHTTP2(true)
	f.http2.HTTP2 = &http.HTTP2Config{SendPingTimeout: limit / 2, PingTimeout: limit}
	return f
}

func (f *fleet) closeIdle() {
	f.http1.CloseIdleConnections()
	f.http2.CloseIdleConnections()
}

// roundTrip sends a request to a backend.
func (f *fleet) roundTrip(k *backend, r *http.Request) (*http.Response, error) {
	if k.http2 {
		return f.http2.RoundTrip(r)
	}
	if f.limit == 0 {
		return f.http1.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(f.limit, func() { cancel(fmt.Errorf("%w after %v (backend-timeout)", errTimeout, f.limit)) })
	timer.Stop()
	answer, err := f.http1.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols { // both ends of an upgraded connection may be silent forever
		answer.Body = &timedBody{answer.Body, timer, f.limit}
	}
	return answer, nil
}

// errTimeout is the error of a backend that sends no byte of its response's body.
var errTimeout = errors.New("backend timed out")

// timedBody is the body of a response. Its timer ends the exchange, and runs only while the backend is waited for.
type timedBody struct {
	io.ReadCloser

	timer *time.Timer
	limit time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	defer b.timer.Stop()
	return b.ReadCloser.Read(p)
}

// conn is a connection to a backend, which may take no byte for limit. If the connection is shared by many requests, the
// backend may not send nothing for limit either: it responds to pings.
type conn struct {
	net.Conn

	limit  time.Duration
	shared bool
}

func (c *conn) Read(p []byte) (int, error) {
	if c.shared {
		if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

func (c *conn) Write(p []byte) (int, error) { return Write(c.Conn, p, c.limit) }

// CloseWrite ends one direction of an upgraded connection alone.
func (c *conn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite ends the writes to a connection, where that is possible alone.
func CloseWrite(c any) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}

// writeTries is how often a Write that waits tries again.
const writeTries = 10

// Write writes to a peer that may take no byte for limit. It tries several times in between: the kernel wakes a Write only
// when a large part of the connection's buffer has been sent, which can take a slow peer minutes, but accepts the bytes of a new
// one as soon as there is any room.
func Write(to net.Conn, p []byte, limit time.Duration) (n int, err error) {
	for quiet := 0; quiet < writeTries; quiet++ {
		if err := to.SetWriteDeadline(time.Now().Add(limit / writeTries)); err != nil {
			return n, err
		}
		var m int
		m, err = to.Write(p[n:])
		if n += m; !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if m > 0 {
			quiet = -1
		}
	}
	return n, err
}
