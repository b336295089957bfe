package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// response is the ResponseWriter of a handler: it notes the status, throttles the body, and
// takes header fields off redirects. What handlers get is made by [response.writer].
type response struct {
	http.ResponseWriter // the one underneath

	visit    *visit       // whose header fields do not belong on 3xx; nil: none
	body     io.Writer    // throttled; nil: the ResponseWriter
	lifted   *atomic.Bool // set: body counts no more; not nil if body is not
	status   int          // as it was sent; 0: none
	hijacked bool
}

// WriteHeader sends the status. Of several the first one counts; those below 200 are not
// the response's, but for 101.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
		if r.visit != nil && redirects(status) {
			r.visit.untell(r.Header())
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// redirects reports whether header fields that tell of quotas do not belong on the response.
func redirects(status int) bool { return status >= 300 && status <= 399 }

// begin notes that what follows sends a status, if there was none.
func (r *response) begin() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
}

func (r *response) Write(p []byte) (int, error) {
	r.begin()
	if r.throttles() {
		return r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// WriteString is what [io.WriteString] uses.
func (r *response) WriteString(s string) (int, error) {
	r.begin()
	if r.throttles() {
		return io.WriteString(r.body, s)
	}
	return io.WriteString(r.ResponseWriter, s)
}

// Unwrap is what [http.ResponseController] uses.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// throttles reports whether what is written goes through body.
func (r *response) throttles() bool { return r.body != nil && !r.lifted.Load() }

// begun reports whether anything was sent.
func (r *response) begun() bool { return r.status != 0 || r.hijacked }

// What a response may have beside, if what is underneath has it.
type (
	flush    struct{ of *response }
	readFrom struct{ of *response }
	hijack   struct{ of *response }
	push     struct{ of *response }
)

func (f flush) Flush() {
	f.of.begin()
	f.of.ResponseWriter.(http.Flusher).Flush()
}

// FlushError is what [http.ResponseController] uses.
func (f flush) FlushError() error {
	f.of.begin()
	return http.NewResponseController(f.of.ResponseWriter).Flush()
}

// ReadFrom is what [io.Copy] uses: a file goes to the connection through the kernel.
func (c readFrom) ReadFrom(src io.Reader) (int64, error) {
	c.of.begin()
	if body, ok := c.of.body.(io.ReaderFrom); ok && c.of.throttles() {
		return body.ReadFrom(src)
	}
	return c.of.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// Hijack hands the connection over, as it is: nothing throttles it from then on.
func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := h.of.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.of.hijacked = true
	}
	return c, rw, err
}

func (p push) Push(target string, o *http.PushOptions) error {
	return p.of.ResponseWriter.(http.Pusher).Push(target, o)
}
