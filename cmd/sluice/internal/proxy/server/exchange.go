package server

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
)

// exchange is a request on its way through the proxy, and its response. It is the request's ResponseWriter, to see what is
// answered. One goroutine has it at a time: the one that serves the request, or, until it has the backend's response, the one
// that passes on informational responses.
type exchange struct {
	http.ResponseWriter

	request  *http.Request
	endpoint *endpoint    // endpoint that serves it
	answer   http.Handler // responds to it if no backend gets it
	start    time.Time
	status   int
	bytes    int64
	policy   string      // policy that rejected the request; "" if there is none
	backend  string      // backend that the request was sent to last; "" if there is none
	costs    http.Header // what the backend says that it cost, in the response's header or, where both do, in the trailer
	ended    bool        // the response of the backend has ended

	readings limits.Readings // readings of the request's keys

	header   http.Header // header of the next response; it is that of the ResponseWriter once sent is true
	fields   http.Header // fields of header, from before a backend was called
	cleared  bool        // they are gone
	informed bool        // an informational response was sent
	sent     bool        // the last response was
}

// statusClientClosedRequest is nginx's status of a client that disconnected before the response.
const statusClientClosedRequest = 499

type exchangeKey struct{}

// newExchange returns an exchange whose request has it in its context.
func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, endpoint: &noEndpoint, start: time.Now(), status: statusClientClosedRequest, header: make(http.Header)}
	x.request = r.WithContext(context.WithValue(limits.Carry(r.Context(), &x.readings), exchangeKey{}, x))
	return x
}

// exchangeOf returns the exchange of a request's context.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// sentTo notes the backend that a request is sent to.
func sentTo(ctx context.Context, backend string) { exchangeOf(ctx).backend = backend }

// keepFields keeps the fields of the header that are there now, such as those of limits. A ReverseProxy clears all of them
// after an informational response such as 103.
func (x *exchange) keepFields() { x.fields = maps.Clone(x.Header()) }

// Header returns the fields of the next response, or after the last one those of its trailer.
func (x *exchange) Header() http.Header {
	if x.cleared {
		x.cleared = false
		maps.Copy(x.header, x.fields)
	}
	return x.header
}

// WriteHeader sends the fields, and notes the status.
func (x *exchange) WriteHeader(status int) {
	informational := status < http.StatusOK && status != http.StatusSwitchingProtocols
	switch {
	case informational:
		config.DropHopByHop(x.header)
		delete(x.header, "Connection") // no informational response upgrades
		delete(x.header, "Upgrade")
		for _, f := range x.endpoint.settles {
			delete(x.header, f) // only the last response says what a request has cost
		}
	case x.status == statusClientClosedRequest:
		x.status = status
	}
	x.passHeader(informational)
	x.ResponseWriter.WriteHeader(status)
}

// passHeader passes the fields to the ResponseWriter. It does not if the client has disconnected after an informational response:
// over HTTP/2 net/http's server may still read the fields of that one.
func (x *exchange) passHeader(informational bool) {
	if x.sent || x.informed && x.request.Context().Err() != nil {
		return
	}
	to := x.ResponseWriter.Header()
	clear(to)
	maps.Copy(to, x.Header())
	if informational {
		x.informed, x.cleared = true, true
	} else {
		x.header, x.sent = to, true
	}
}

func (x *exchange) Write(p []byte) (int, error) {
	if x.status == statusClientClosedRequest {
		x.status = http.StatusOK
	}
	x.passHeader(false)
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// Hijack takes over the connection, which is done to upgrade it. A ReverseProxy reads from the connection alone, so what
// the client has sent behind its request comes from there too.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buf, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return c, buf, err
	}
	x.status = http.StatusSwitchingProtocols
	if n := buf.Reader.Buffered(); n > 0 {
		early, _ := buf.Reader.Peek(n)
		c = &resumedConn{Conn: c, Reader: io.MultiReader(bytes.NewReader(early), c)}
	}
	return c, buf, nil
}

// resumedConn is a connection of which something was read before.
type resumedConn struct {
	net.Conn
	io.Reader
}

func (c *resumedConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// CloseWrite ends one direction alone.
func (c *resumedConn) CloseWrite() error { return upstream.CloseWrite(c.Conn) }

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// served notes that the request was served to the end.
func (x *exchange) served() {
	if x.status == statusClientClosedRequest {
		x.status = http.StatusOK // which net/http sends
	}
	x.passHeader(false)
}

// grpcStatus returns the status of a call of gRPC, which may be in the trailer; "": there is none.
func (x *exchange) grpcStatus() string {
	h := x.Header()
	if s := h.Get("Grpc-Status"); s != "" {
		return s
	}
	return h.Get(http.TrailerPrefix + "Grpc-Status")
}

// entry returns the exchange for the access log.
func (x *exchange) entry(client string) accesslog.Entry {
	return accesslog.Entry{
		Request: x.request, Client: client, Start: x.start, Status: x.status, Bytes: x.bytes,
		Policy: x.policy, Backend: x.backend, GRPC: x.grpcStatus(),
	}
}
