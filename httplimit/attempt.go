package httplimit

import (
	"io"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// attempt is one attempt to send a request.
type attempt struct {
	policy.Attempt

	transport *Transport
	response  *http.Response // nil until it has come

	retry      bool          // the response asks to wait
	retryAfter time.Duration // how long
}

// end settles and releases the lease, once.
func (a *attempt) end() {
	if settle := a.transport.o.Settle; settle != nil && a.response != nil {
		a.End(func() int { return settle(a.response) })
	} else {
		a.End(nil)
	}
}

// deliver returns the response for the caller, with a body that is throttled and holds the lease.
func (t *Transport) deliver(r *http.Request, a *attempt) *http.Response {
	response := a.response
	upgrade, ok := response.Body.(io.ReadWriteCloser)
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && ok:
		if a.Limited() {
			response.Body = upgraded(upgrade, a)
		}
		return response
	case bodiless(r, response):
		a.end()
		return response
	}
	if t.o.Download != nil {
		response.Body = ioreader.NewReader(r.Context(), response.Body, partition.For(t.o.Download, r))
	}
	if a.Limited() {
		response.Body = &leasedBody{response.Body, a}
	}
	return response
}

func bodiless(r *http.Request, response *http.Response) bool {
	return response.Body == nil || response.Body == http.NoBody || response.ContentLength == 0 ||
		r.Method == http.MethodHead ||
		response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
}

// A response that the caller does not get is read so that its connection can be reused. It is read up to this many
// bytes and for this long, because more would cost more than a new connection.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// drain ends an attempt whose response the caller does not get.
func (a *attempt) drain() {
	defer a.end()
	body := a.response.Body
	if body == nil {
		return
	}
	late := time.AfterFunc(drainTime, func() { closeBody(body) }) // then a Read that waits returns
	_, _ = io.CopyN(io.Discard, body, drainBytes)                 // an error changes nothing
	if late.Stop() {
		closeBody(body)
	}
}

// leasedBody is a response body that ends the attempt at its own end.
type leasedBody struct {
	io.ReadCloser

	attempt *attempt
}

func (b *leasedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.attempt.end()
	}
	return n, err
}

func (b *leasedBody) Close() error {
	defer b.attempt.end()
	return b.ReadCloser.Close()
}

// upgraded returns the connection of an upgrade, which holds the lease until it is closed.
func upgraded(body io.ReadWriteCloser, a *attempt) io.ReadCloser {
	c := connection{body, a}
	if half, ok := body.(closeWriter); ok {
		return struct {
			connection
			closeWriter
		}{c, half}
	}
	return c
}

type connection struct {
	io.ReadWriteCloser

	attempt *attempt
}

func (c connection) Close() error {
	defer c.attempt.end()
	return c.ReadWriteCloser.Close()
}

type closeWriter interface{ CloseWrite() error }
