package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// response is a ResponseWriter around another: it notes the status, and throttles the body.
// [response.writer] returns it for a handler.
type response struct {
	http.ResponseWriter

	before   func(status int) // called before the status is sent; nil: nothing
	body     io.Writer        // throttled; nil: the ResponseWriter
	status   int              // as it was sent; 0: none
	hijacked bool
}

// wrap returns the ResponseWriter for the next handler: w itself, unless there are header fields
// to remove, a body to throttle, or a status that a policy wants to know.
func (adm *admission) wrap(w http.ResponseWriter) http.ResponseWriter {
	var q quota
	reports := adm.terms.Headers != RetryAfterOnly && len(adm.asked) > 0
	if reports {
		q = adm.terms.setQuota(w.Header(), adm.asked)
	}
	asks := false
	for i := range adm.asked {
		a := &adm.asked[i]
		asks = asks || a.Lease.Acquired() && (a.Policy.Refund != nil || a.Policy.Settle != nil)
	}
	body := adm.throttledDownload(w)
	if !reports && body == nil && !asks {
		return w
	}
	adm.response = &response{ResponseWriter: w, body: body}
	if reports {
		adm.response.before = func(status int) {
			if redirects(status) {
				q.remove(w.Header())
			}
		}
	}
	return adm.response.writer()
}

// WriteHeader sends the status. The first status counts; those below 200 are not the response's,
// except 101.
func (r *response) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.begin(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// begin notes that a status is sent now, unless one was sent.
func (r *response) begin(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	if r.before != nil {
		r.before(status)
	}
}

func (r *response) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	if r.body != nil {
		return r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// WriteString is for [io.WriteString].
func (r *response) WriteString(s string) (int, error) {
	r.begin(http.StatusOK)
	if r.body != nil {
		return io.WriteString(r.body, s)
	}
	return io.WriteString(r.ResponseWriter, s)
}

// Unwrap is for [http.ResponseController].
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// begun reports whether anything was sent.
func (r *response) begun() bool { return r.status != 0 || r.hijacked }

// The methods that a response has only if the ResponseWriter underneath has them.
type (
	flush    struct{ of *response }
	readFrom struct{ of *response }
	hijack   struct{ of *response }
	notify   struct{ of *response }
	push     struct{ of *response }
)

func (f flush) Flush() {
	f.of.begin(http.StatusOK)
	f.of.ResponseWriter.(http.Flusher).Flush()
}

// FlushError is for [http.ResponseController].
func (f flush) FlushError() error {
	f.of.begin(http.StatusOK)
	return http.NewResponseController(f.of.ResponseWriter).Flush()
}

// ReadFrom is for [io.Copy]: the kernel copies a file to the connection.
func (c readFrom) ReadFrom(src io.Reader) (int64, error) {
	c.of.begin(http.StatusOK)
	if body, ok := c.of.body.(io.ReaderFrom); ok {
		return body.ReadFrom(src)
	}
	return c.of.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// Hijack returns the connection as it is: nothing throttles it.
func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := h.of.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.of.hijacked = true
	}
	return c, rw, err
}

func (n notify) CloseNotify() <-chan bool {
	return n.of.ResponseWriter.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // gin asserts it
}

func (p push) Push(target string, o *http.PushOptions) error {
	return p.of.ResponseWriter.(http.Pusher).Push(target, o)
}
