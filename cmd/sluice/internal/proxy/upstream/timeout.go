package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"time"
)

// errTimeout is the error of a backend that neither takes nor sends a byte.
var errTimeout = errors.New("backend timed out")

func timedOut(after time.Duration) error {
	return fmt.Errorf("%w after %v (backend-timeout)", errTimeout, after)
}

// transport sends requests to backends over HTTP/1.1, and ends those whose backend is silent for limit; 0: none.
type transport struct {
	http.RoundTripper

	limit time.Duration
}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.limit == 0 {
		return t.RoundTripper.RoundTrip(r)
	}
	// The end of the exchange is the end of a context: http.Transport would take an error of a kept connection for a
	// reason to send the request again.
	ctx, cancel := context.WithCancelCause(r.Context())
	x := &exchange{limit: t.limit, cancel: cancel}
	x.timer = time.AfterFunc(t.limit, x.tick)
	x.timer.Stop()
	r = r.WithContext(httptrace.WithClientTrace(ctx, x.trace()))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watchedBody{r.Body, x, &x.client}
	}
	answer, err := t.RoundTripper.RoundTrip(r)
	x.await(&x.backend, false)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols { // both ends of an upgraded connection may be silent forever
		answer.Body = &watchedBody{answer.Body, x, &x.backend}
	}
	return answer, nil
}

// exchange is a request to a backend, and its response. Its timer ends it. The timer runs only while the backend is waited
// for, and starts again with each header and with each part of a body.
type exchange struct {
	limit  time.Duration
	timer  *time.Timer // runs while the backend is waited for, for a part of limit each time
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	quiet    int      // parts of limit in which nothing has moved
	conn     net.Conn // to the backend; nil until there is one
	progress Progress // of the backend, which takes what is sent
	backend  bool     // the response, or the next part of it, is waited for
	client   bool     // the next part of the request is waited for
}

// await notes whether one of the two is waited for, and restarts the timer.
func (x *exchange) await(whom *bool, waiting bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*whom = waiting
	x.restartLocked()
}

func (x *exchange) restartLocked() {
	x.quiet = 0
	if x.backend && !x.client {
		x.timer.Reset(x.limit / Ticks)
	} else {
		x.timer.Stop()
	}
}

// tick ends the exchange if nothing has moved for limit.
func (x *exchange) tick() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.backend || x.client {
		return
	}
	x.quiet++
	if x.conn != nil && x.progress.Moved(x.conn) {
		x.quiet = 0
	}
	if x.quiet < Ticks {
		x.timer.Reset(x.limit / Ticks)
	} else {
		x.cancel(timedOut(x.limit))
	}
}

// trace returns what notes that there is a connection, which may take its own time to be made, and informational responses.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { x.await(&x.backend, false) },
		GotConn: func(i httptrace.GotConnInfo) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.conn, x.backend = i.Conn, true
			x.restartLocked()
		},
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.restartLocked()
			return nil
		},
	}
}

// watchedBody is a body of an exchange. While it is read, its sender is waited for.
type watchedBody struct {
	io.ReadCloser

	x    *exchange
	from *bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.x.await(b.from, true)
	defer b.x.await(b.from, false)
	return b.ReadCloser.Read(p)
}

// sharedConn is a connection of many exchanges over HTTP/2. It fails when nothing comes for limit, not even a response to a
// ping.
type sharedConn struct {
	net.Conn

	limit    time.Duration
	progress Progress // of the backend, which takes what is sent
}

func (c *sharedConn) Read(p []byte) (int, error) {
	for {
		if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !c.progress.Moved(c.Conn) {
			return n, timedOut(c.limit)
		}
	}
}

// IsTimeout reports whether err comes of a backend that took the connection, and was then silent.
func IsTimeout(err error) bool {
	if _, dialing := errors.AsType[*dialError](err); dialing {
		return false
	}
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, errTimeout) || ok && timeout.Timeout()
}
