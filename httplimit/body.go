package httplimit

import (
	"io"
	"net/http"

	"github.com/sluice-go/sluice/core"
)

// hand returns the response as the caller gets it: its body throttled, and holding the
// lease.
func (t *Transport) hand(r *http.Request, response *http.Response, lease core.Lease) *http.Response {
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && response.Body != nil:
		if t.o.Limiter != nil {
			response.Body = upgraded(response.Body, lease)
		}
		return response
	case bodiless(r, response):
		lease.Release()
		return response
	}
	if t.o.Download != nil {
		response.Body = throttledBody(r.Context(), response.Body, r, []Limiter{t.o.Download})
	}
	if t.o.Limiter != nil {
		response.Body = &leasedBody{response.Body, lease}
	}
	return response
}

func bodiless(r *http.Request, response *http.Response) bool {
	return response.Body == nil || response.Body == http.NoBody || response.ContentLength == 0 ||
		r.Method == http.MethodHead ||
		response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
}

// drainAtMost is how much of an answer is read so that its connection can be used again.
const drainAtMost = 64 << 10

// drain does away with a response.
func drain(response *http.Response, lease core.Lease) {
	defer lease.Release()
	if response.Body == nil {
		return
	}
	defer closeBody(response.Body)
	_, _ = io.CopyN(io.Discard, response.Body, drainAtMost) // whether it can be read matters to nobody
}

// leasedBody is a response's body that releases the lease at its end.
type leasedBody struct {
	io.ReadCloser

	lease core.Lease
}

func (b *leasedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.lease.Release()
	}
	return n, err
}

func (b *leasedBody) Close() error {
	defer b.lease.Release()
	return b.ReadCloser.Close()
}

// upgraded returns the connection that an upgrade's body is, which holds the lease until
// it is closed.
func upgraded(body io.ReadCloser, lease core.Lease) io.ReadCloser {
	c := connection{body, lease}
	w, ok := body.(io.Writer)
	if !ok {
		return c
	}
	if half, ok := body.(closeWriter); ok {
		return struct {
			connection
			io.Writer
			closeWriter
		}{c, w, half}
	}
	return struct {
		connection
		io.Writer
	}{c, w}
}

type connection struct {
	io.ReadCloser

	lease core.Lease
}

func (c connection) Close() error {
	defer c.lease.Release()
	return c.ReadCloser.Close()
}

type closeWriter interface{ CloseWrite() error }
