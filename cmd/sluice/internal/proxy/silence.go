package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// How long a backend may be silent is kept in two places: a connection ends a write that the backend does not take, and
// a watch ends an exchange in which it is the backend's turn.

// errSilent is the error of a backend that takes nothing and sends nothing.
var errSilent = errors.New("the backend is silent")

// isSilence reports whether err comes of a backend that took the connection, and was then silent.
func isSilence(err error) bool {
	if _, dialing := errors.AsType[*dialError](err); dialing {
		return false
	}
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, errSilent) || ok && timeout.Timeout()
}

// transport sends requests to backends.
type transport struct {
	http.Transport

	limit time.Duration // how long they may be silent; 0: for ever
	watch *watch        // nil if there is no limit
}

// RoundTrip sends a request, and has it and its answer end if the backend is silent.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.watch == nil {
		return t.Transport.RoundTrip(r)
	}
	return t.watch.exchanges(&t.Transport, r)
}

// exchanges sends a request over to.
func (w *watch) exchanges(to http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	x := &exchange{watch: w, cancel: cancel}
	r = r.WithContext(x.traced(ctx))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &sentBody{r.Body, x}
	}
	answer, err := to.RoundTrip(r)
	silent := x.toClient()
	switch {
	case err != nil:
		cancel()
		if silent {
			err = errSilent
		}
	case answer.StatusCode == http.StatusSwitchingProtocols: // what is upgraded may be silent, and ends with the request
	case answer.Body == http.NoBody:
	default:
		answer.Body = &answerBody{answer.Body, x}
	}
	return answer, err
}

// traced returns a context by which x is told how its request goes. A ReverseProxy makes a trace for each request, which
// goes with it and is nobody else's: to add to that one costs much less than to lay another over it.
func (x *exchange) traced(ctx context.Context) context.Context {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		trace = new(httptrace.ClientTrace)
		ctx = httptrace.WithClientTrace(ctx, trace)
	}
	trace.GetConn = func(string) { x.seeks() }
	trace.WroteRequest = func(httptrace.WroteRequestInfo) { x.goesOn() }
	then := trace.Got1xxResponse
	trace.Got1xxResponse = func(status int, header textproto.MIMEHeader) error {
		x.goesOn()
		if then == nil {
			return nil
		}
		return then(status, header)
	}
	return ctx
}

// sentBody is the body of a request that is sent to a backend.
type sentBody struct {
	io.ReadCloser

	x *exchange
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.x.toClient()
	defer b.x.toBackend()
	return b.ReadCloser.Read(p)
}

// answerBody is the body of a backend's answer. Between two calls of Read the client takes its time.
type answerBody struct {
	io.ReadCloser

	x *exchange
}

func (b *answerBody) Read(p []byte) (int, error) {
	b.x.toBackend()
	n, err := b.ReadCloser.Read(p)
	if b.x.toClient() && err != nil {
		err = errSilent
	}
	return n, err
}

func (b *answerBody) Close() error {
	defer b.x.cancel()
	return b.ReadCloser.Close()
}
