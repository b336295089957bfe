package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/ioreader"
)

// response is a ResponseWriter around another: it notes the status, and throttles the body. Handlers
// find out by assertions what a writer can do, and the methods of a type are fixed: [response.writer]
// returns one of five types for a handler.
type response struct {
	http.ResponseWriter

	body     io.Writer          // the ResponseWriter, or a download to it
	quota    quota              // the fields that were set
	uploads  []*ioreader.Reader // the request's body, if that is throttled
	status   int                // as it was sent; 0: none
	hijacked bool
}

// WriteHeader sends the status. The first status counts; those below 200 are not the response's,
// except 101. A 101 is sent at once: a writer that delays its status, such as gin's, would send none
// once its connection is taken over.
func (r *response) WriteHeader(status int) {
	switching := status == http.StatusSwitchingProtocols
	if status >= 200 || switching {
		r.begin(status)
	}
	r.ResponseWriter.WriteHeader(status)
	if switching {
		_ = http.NewResponseController(r.ResponseWriter).Flush() // one that cannot flush has sent it
	}
}

// begin notes that a status is sent now, unless one was sent.
func (r *response) begin(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	r.quota.begin(r.Header(), status)
}

func (r *response) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	return r.body.Write(p)
}

// ReadFrom is for [io.Copy]: if the writer underneath has it too, the kernel copies a file to the connection.
func (r *response) ReadFrom(src io.Reader) (int64, error) {
	r.begin(http.StatusOK)
	if to, ok := r.body.(io.ReaderFrom); ok {
		return to.ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{r.body}, src)
}

// WriteString is for [io.WriteString].
func (r *response) WriteString(s string) (int, error) {
	r.begin(http.StatusOK)
	return io.WriteString(r.body, s)
}

// SetReadDeadline is for [http.ResponseController]: a Read that waits for permits ends then, too.
func (r *response) SetReadDeadline(t time.Time) error {
	err := http.NewResponseController(r.ResponseWriter).SetReadDeadline(t)
	if err != nil {
		return err
	}
	for _, body := range r.uploads {
		err = errors.Join(err, body.SetReadDeadline(t))
	}
	return err
}

// Unwrap is for [http.ResponseController].
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// begun reports whether anything was sent.
func (r *response) begun() bool { return r.status != 0 || r.hijacked }

// writer returns r for a handler: of the types that have no method that the writer underneath lacks,
// the one with most.
func (r *response) writer() http.ResponseWriter {
	_, flushes := r.ResponseWriter.(http.Flusher)
	_, notifies := r.ResponseWriter.(http.CloseNotifier) //nolint:staticcheck // gin asserts it
	_, hijacks := r.ResponseWriter.(http.Hijacker)
	_, pushes := r.ResponseWriter.(http.Pusher)
	switch {
	case flushes && notifies && hijacks:
		return http1{hijacking{flushing{r}}}
	case flushes && notifies && pushes:
		return http2{flushing{r}}
	case flushes && hijacks:
		return hijacking{flushing{r}}
	case flushes:
		return flushing{r}
	}
	return r
}

// flushing is a response that can be flushed.
type flushing struct{ *response }

func (f flushing) Flush() {
	f.begin(http.StatusOK)
	f.ResponseWriter.(http.Flusher).Flush()
}

// FlushError is for [http.ResponseController].
func (f flushing) FlushError() error {
	f.begin(http.StatusOK)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// hijacking is a response of a router that has its own writer, as gin and echo have: WebSockets are
// upgraded there too, by libraries that know no [http.ResponseController].
type hijacking struct{ flushing }

// Hijack returns the connection as it is: nothing throttles it.
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.response.hijacked = true
	}
	return c, rw, err
}

// http1 is a response as HTTP/1 has it.
type http1 struct{ hijacking }

func (h http1) CloseNotify() <-chan bool { return closeNotify(h.ResponseWriter) }

// http2 is a response as HTTP/2 has it.
type http2 struct{ flushing }

func (h http2) CloseNotify() <-chan bool { return closeNotify(h.ResponseWriter) }

func (h http2) Push(target string, o *http.PushOptions) error {
	return h.ResponseWriter.(http.Pusher).Push(target, o)
}

func closeNotify(w http.ResponseWriter) <-chan bool {
	return w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // gin asserts it
}
