package server

import (
	"cmp"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/accesslog"
)

// newForwarder returns what sends requests to the backends.
func newForwarder(p *Proxy) http.Handler {
	f := &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: modify,
		Transport:      p.backends,
		BufferPool:     new(buffers),
		ErrorLog:       log.New(io.Discard, "", 0), // clients that disconnect amid a response
		ErrorHandler:   p.answerError,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := p.state.Load().config.MaxBody
		if most > 0 && r.ContentLength > most {
			answer(w, r, http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			if most > 0 {
				r.Body = http.MaxBytesReader(w, r.Body, most)
			}
			b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), request: r}
			b.dropTrailers()
			defer b.end()
			r.Body = b
		}
		w.Header()["Content-Type"] = nil // if the backend does not say it, nor does net/http
		exchangeOf(r.Context()).keepFields()
		f.ServeHTTP(w, r)
	})
}

// rewrite changes the request that a backend gets.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also what only the backend understands
	trusted := p.keys.Trusts(r.In)
	if trusted {
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}
	r.SetXForwarded()
	for _, field := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if v, ok := r.In.Header[field]; ok && trusted {
			r.Out.Header[field] = v
		}
	}
	r.Out.Trailer = r.In.Trailer // its values come with the end of the body, which checks them
}

// modify changes the response that a client gets.
func modify(a *http.Response) error {
	if a.StatusCode < http.StatusContinue {
		return errNoStatus // net/http panics when it is to send it
	}
	x := exchangeOf(a.Request.Context())
	x.takeCosts(a.Header)
	if a.StatusCode == http.StatusSwitchingProtocols {
		config.DropHopByHop(a.Header)
		x.throttle(a)
		return nil
	}
	dropTrailers(a.Trailer) // which are announced; their values come with the end of the body
	x.takeCosts(a.Trailer)
	a.Body = &responseBody{a.Body, func() {
		dropTrailers(a.Trailer)
		x.takeCosts(a.Trailer)
		x.ended = true
	}}
	return nil
}

// responseBody is the body of a response. It calls end at its end, with which the trailers come.
type responseBody struct {
	io.ReadCloser

	end func()
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && b.end != nil {
		b.end()
		b.end = nil
	}
	return n, err
}

func dropTrailers(trailer http.Header) {
	for name := range trailer {
		if !config.PassesTrailer(name) {
			delete(trailer, name)
		}
	}
}

// answerError responds to a request for which no response of a backend came.
func (p *Proxy) answerError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		// The client has disconnected, or has closed its side and still reads: it must not take silence for an empty 200.
		panic(http.ErrAbortHandler)
	}
	status := statusOf(err)
	if status > http.StatusInternalServerError {
		backend := cmp.Or(exchangeOf(r.Context()).backend, "no backend")
		p.saySeldom(&p.failures, hundred, "%d for %s of %s: %s: %s", status, accesslog.Escaped(r.Method+" "+r.RequestURI), p.keys.Address(r), backend, failure(err))
	}
	answer(w, r, status)
}

// failure says for people why a backend did not respond.
func failure(err error) string {
	if errors.Is(err, io.EOF) {
		return "the backend closed the connection before it responded"
	}
	return err.Error()
}

// errNoStatus is the error of a response such as 099.
var errNoStatus = errors.New("backend returned an invalid status code")

// body is a request's body that does not wait forever. A transport may read it for some time after the response.
type body struct {
	io.ReadCloser

	control *http.ResponseController
	request *http.Request // whose trailers come at the end

	mu    sync.Mutex // while the deadline is set
	ended bool       // the deadline is another's
}

func (b *body) Read(p []byte) (int, error) {
	if !b.within(time.Now().Add(stallTime)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.dropTrailers()
		b.within(time.Time{}) // the response takes its time
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errStalled
	case err != nil:
		err = &clientError{err}
	}
	return n, err
}

// dropTrailers drops the trailers that would not pass, or would be counted, as headers: a server may add trailers to the header.
func (b *body) dropTrailers() {
	keys := exchangeOf(b.request.Context()).endpoint.clientControlled
	for name := range b.request.Trailer {
		if !config.PassesTrailer(name) || b.request.Header[name] != nil || slices.Contains(keys, config.KeyPart{Kind: config.KeyHeader, Name: name}) {
			delete(b.request.Trailer, name)
		}
	}
}

// within sets the deadline of reads, and reports false after the end.
func (b *body) within(deadline time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.control.SetReadDeadline(deadline) // an error: the connection has no deadlines
	}
	return !b.ended
}

func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return p[:]
	}
	return new([32 << 10]byte)[:]
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }
