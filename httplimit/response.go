package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/ioreader"
)

// response is a ResponseWriter that wraps another. It records the status and throttles the body. Handlers use type
// assertions to find out what a writer supports, so [response.writer] returns one of five types for a handler.
type response struct {
	http.ResponseWriter

	body     io.Writer          // the ResponseWriter, or a download to it
	quota    quota              // the headers that were set
	uploads  []*ioreader.Reader // the request's body, if it is throttled
	status   int                // 0 until one was sent
	hijacked bool
	failed   bool // a part of the body was not written
}

// WriteHeader sends the status. The first one is the response's; statuses below 200 are not, except 101. A 101 is
// flushed, because a writer that delays its status, such as gin's, would not send it once the connection is hijacked.
func (r *response) WriteHeader(status int) {
	switching := status == http.StatusSwitchingProtocols
	if status >= 200 || switching {
		r.start(status)
	}
	r.ResponseWriter.WriteHeader(status)
	if switching {
		_ = http.NewResponseController(r.ResponseWriter).Flush() // a writer that cannot flush has already sent it
	}
}

// start is called before something is sent. The first call records the status.
func (r *response) start(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	r.quota.removeFromRedirect(r.Header(), status)
}

func (r *response) Write(p []byte) (n int, err error) {
	r.start(http.StatusOK)
	n, err = r.body.Write(p)
	r.failed = r.failed || err != nil
	return n, err
}

// ReadFrom is for [io.Copy]: if the writer underneath has it too, the kernel copies a file to the connection.
func (r *response) ReadFrom(src io.Reader) (n int64, err error) {
	r.start(http.StatusOK)
	if to, ok := r.body.(io.ReaderFrom); ok {
		n, err = to.ReadFrom(src)
	} else {
		n, err = io.Copy(struct{ io.Writer }{r.body}, src)
	}
	r.failed = r.failed || err != nil
	return n, err
}

// WriteString is for [io.WriteString].
func (r *response) WriteString(s string) (n int, err error) {
	r.start(http.StatusOK)
	n, err = io.WriteString(r.body, s)
	r.failed = r.failed || err != nil
	return n, err
}

// cutOff reports whether a download has ended early because ctx, the request's, has ended.
func (r *response) cutOff(ctx context.Context) bool {
	_, throttled := r.body.(*ioreader.Writer)
	return throttled && r.failed && ctx.Err() != nil
}

// SetReadDeadline is for [http.ResponseController]. The deadline also ends a Read that waits for permits.
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

// started reports whether anything was sent.
func (r *response) started() bool { return r.status != 0 || r.hijacked }

// writer returns r for a handler, as the type with the most methods that the underlying writer supports.
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
	f.start(http.StatusOK)
	f.ResponseWriter.(http.Flusher).Flush()
}

// FlushError is for [http.ResponseController].
func (f flushing) FlushError() error {
	f.start(http.StatusOK)
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// hijacking is a response for routers with their own writers, such as gin and echo. WebSocket libraries that do not
// know [http.ResponseController] use them too.
type hijacking struct{ flushing }

// Hijack returns the connection, which is not throttled.
func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		h.response.hijacked = true
	}
	return c, rw, err
}

// http1 is a response with the methods of HTTP/1.
type http1 struct{ hijacking }

func (h http1) CloseNotify() <-chan bool { return closeNotify(h.ResponseWriter) }

// http2 is a response with the methods of HTTP/2.
type http2 struct{ flushing }

func (h http2) CloseNotify() <-chan bool { return closeNotify(h.ResponseWriter) }

func (h http2) Push(target string, o *http.PushOptions) error {
	return h.ResponseWriter.(http.Pusher).Push(target, o)
}

func closeNotify(w http.ResponseWriter) <-chan bool {
	return w.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // gin asserts it
}
