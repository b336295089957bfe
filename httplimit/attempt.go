package httplimit

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// attempt is a request that was sent, and the lease that it holds.
type attempt struct {
	response *http.Response
	limiter  core.Limiter // bound to the request; nil: the request is not limited
	lease    core.Lease
	settle   func(*http.Response) int // TransportOptions.Settle
	once     sync.Once

	retry      bool          // the response asks to wait
	retryAfter time.Duration // how long
}

// end settles and releases the lease, once.
func (a *attempt) end() {
	a.once.Do(func() {
		defer a.lease.Release()
		if a.settle != nil && a.lease.Acquired() {
			policy.Settle(a.limiter, a.lease, a.settle(a.response))
		}
	})
}

// hand returns the response for the caller: its body is throttled, and holds the lease.
func (t *Transport) hand(r *http.Request, a *attempt) *http.Response {
	response := a.response
	upgrade, ok := response.Body.(io.ReadWriteCloser)
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && ok:
		if a.lease.Acquired() {
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
	if a.lease.Acquired() {
		response.Body = &leasedBody{response.Body, a}
	}
	return response
}

func bodiless(r *http.Request, response *http.Response) bool {
	return response.Body == nil || response.Body == http.NoBody || response.ContentLength == 0 ||
		r.Method == http.MethodHead ||
		response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified
}

// An answer that is not handed on is read, so that its connection can be used again, up to this
// many bytes and that long: longer would cost more than another connection.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// drain ends an attempt whose answer is not handed on.
func (a *attempt) drain() {
	defer a.end()
	body := a.response.Body
	if body == nil {
		return
	}
	late := time.AfterFunc(drainTime, func() { closeBody(body) }) // a Read that waits returns then
	_, _ = io.CopyN(io.Discard, body, drainBytes)                 // whether it can be read does not matter
	if late.Stop() {
		closeBody(body)
	}
}

// leasedBody is a response's body whose end is the attempt's.
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

// upgraded returns the connection of an upgrade. It holds the lease until it is closed.
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
