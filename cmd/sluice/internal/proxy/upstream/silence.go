package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/stall"
)

// errSilent is the error of a backend that neither takes nor sends a byte.
var errSilent = errors.New("the backend is silent")

// backendConn is a connection to a backend. A call fails once the backend has been silent for limit, or for up to a 12th
// less: each byte moves the deadlines. A Read has none while the client is waited for.
type backendConn struct {
	*stall.Conn // has the deadline of writes

	begun  time.Time
	limit  time.Duration
	shared bool // by exchanges over HTTP/2: only what comes moves the deadline of reads, if just answers to pings

	mu       sync.Mutex
	set      time.Duration // when the deadline of reads was set, since begun; 0: not since the client was waited for
	client   bool          // the client is waited for
	exchange *exchange     // the one that has the connection, or had it last; nil: none, or several over HTTP/2
}

// Read reads from the backend.
func (c *backendConn) Read(p []byte) (int, error) {
	c.touch()
	n, err := c.Conn.Read(p)
	return n, c.checked(err)
}

// Write writes to the backend. What it takes shows that it is there, so that its answer has more time too.
func (c *backendConn) Write(p []byte) (int, error) {
	if !c.shared {
		c.touch()
		defer c.touch()
	}
	n, err := c.Conn.Write(p)
	return n, c.checked(err)
}

// checked ends the exchange if err is a deadline: http.Transport would take the error of a kept connection for a reason
// to send the request again.
func (c *backendConn) checked(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	x := c.exchange
	c.mu.Unlock()
	if x != nil {
		x.cancel(errSilent)
	}
	return errSilent
}

// touch gives the backend limit from now on, unless it has most of that anyway: to set a deadline costs more than to
// look at the clock.
func (c *backendConn) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked()
}

func (c *backendConn) touchLocked() {
	now := time.Since(c.begun)
	if c.client || c.set != 0 && now-c.set < c.limit/stall.Fresh {
		return
	}
	if c.Conn.SetReadDeadline(time.Now().Add(c.limit)) == nil {
		c.set = now
	}
}

// await says whether the client is waited for, so that the backend may be silent.
func (c *backendConn) await(client bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client, c.set = client, 0; client {
		_ = c.Conn.SetReadDeadline(time.Time{})
		return
	}
	c.touchLocked()
}

// begin gives the connection to an exchange.
func (c *backendConn) begin(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchange, c.client, c.set = x, false, 0
	c.touchLocked()
}

// exchange is a request to a backend over HTTP/1.1, and its answer.
type exchange struct {
	cancel context.CancelCauseFunc
	conn   atomic.Pointer[backendConn] // nil until there is one
}

// exchange sends a request, and ends it with errSilent if the backend is silent.
func (t *transport) exchange(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	x := &exchange{cancel: cancel}
	// A ReverseProxy makes a trace for each request. To add to that one is much cheaper than to lay another over it.
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		trace = new(httptrace.ClientTrace)
		ctx = httptrace.WithClientTrace(ctx, trace)
	}
	trace.GotConn = x.gotConn
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sentBody{r.Body, x}
	}
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		defer cancel(nil)
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		x.await(true) // for ever: both ends of an upgraded connection may be silent
	}
	return answer, nil
}

func (x *exchange) gotConn(i httptrace.GotConnInfo) {
	under := i.Conn
	if c, ok := under.(*tls.Conn); ok {
		under = c.NetConn()
	}
	if c, ok := under.(*backendConn); ok {
		x.conn.Store(c)
		c.begin(x)
	}
}

func (x *exchange) await(client bool) {
	if c := x.conn.Load(); c != nil {
		c.await(client)
	}
}

// sentBody is the body of a request that is sent to a backend. While it is read, the client is waited for.
type sentBody struct {
	io.ReadCloser

	x *exchange
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.x.await(true)
	defer b.x.await(false)
	return b.ReadCloser.Read(p)
}

// transport sends requests to backends of one protocol.
type transport struct {
	http.RoundTripper

	exchanges bool // each has a connection for itself while it lasts, which is watched for silence
}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.exchanges {
		return t.exchange(r)
	}
	return t.RoundTripper.RoundTrip(r)
}

// dialer makes connections to backends.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// watched returns a dialer whose connections end when the backend is silent for limit; 0: never. Those of HTTP/2 are
// shared.
func (d dialer) watched(limit time.Duration, shared bool) dialer {
	begun := time.Now()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d(ctx, network, address)
		if err != nil {
			return nil, &dialError{err}
		}
		if limit == 0 {
			return c, nil
		}
		return &backendConn{Conn: stall.New(c, begun, limit), begun: begun, limit: limit, shared: shared}, nil
	}
}

// IsSilence reports whether err comes of a backend that took the connection, and was then silent.
func IsSilence(err error) bool {
	if _, dialing := errors.AsType[*dialError](err); dialing {
		return false
	}
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, errSilent) || ok && timeout.Timeout()
}
