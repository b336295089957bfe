package proxy

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/stall"
)

// newForwarder returns what sends requests to the backends.
func newForwarder(p *proxy) http.Handler {
	f := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also what only the backend understands
			trusted := p.trusts(r.In)
			if trusted {
				r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			}
			r.SetXForwarded()
			for _, field := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
				if v, ok := r.In.Header[field]; ok && trusted {
					r.Out.Header[field] = v
				}
			}
			r.Out.Trailer = r.In.Trailer // its values come with the end of the body
		},
		ModifyResponse: func(a *http.Response) error {
			if a.StatusCode < http.StatusContinue {
				return errNoStatus // net/http panics when it is to send it
			}
			costsOf(a.Request.Context()).take(a)
			if a.StatusCode == http.StatusSwitchingProtocols {
				throttle(a)
			}
			return nil
		},
		Transport:  p.backends,
		BufferPool: new(buffers),
		ErrorLog:   log.New(io.Discard, "", 0), // clients that leave in the middle of an answer
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				// The client has left, or can still read and has ended its side: it must not take silence for an empty 200.
				panic(http.ErrAbortHandler)
			}
			status := statusOf(err)
			if status > http.StatusInternalServerError {
				p.failed(r, status, err)
			}
			answer(w, r, status)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := p.state.Load().config.MaxBody
		if most > 0 && r.ContentLength > most {
			answer(w, r, http.StatusRequestEntityTooLarge)
			return
		}
		if strings.ContainsFunc(r.Header.Get("Upgrade"), isNotASCII) { // a ReverseProxy would take it for the backend's fault
			answer(w, r, http.StatusBadRequest)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			if most > 0 {
				r.Body = http.MaxBytesReader(w, r.Body, most)
			}
			b := &body{ReadCloser: r.Body, control: http.NewResponseController(w)}
			defer b.end()
			r.Body = b
		}
		w.Header()["Content-Type"] = nil // if the backend does not say it, nor does net/http
		f.ServeHTTP(&keepingWriter{ResponseWriter: w, fields: maps.Clone(w.Header()), costs: costsOf(r.Context())}, r)
	})
}

const failuresPerSecond = 100 // that have a line

// failed prints a line about a request that no backend answered.
func (p *proxy) failed(r *http.Request, status int, err error) {
	if !p.failures.TryAcquire(1).Acquired() {
		p.unsaid.Add(1)
		return
	}
	others := ""
	if n := p.unsaid.Swap(0); n > 0 {
		others = fmt.Sprintf("; without a line since the one before: %d", n)
	}
	backend := "no backend"
	if v := visitOf(r.Context()); v != nil && v.backend != "" {
		backend = v.backend
	}
	p.say("%d for %s of %s: %s: %v%s", status, escaped(r.Method+" "+r.RequestURI), p.keys.address(r), backend, err, others)
}

// keepingWriter keeps the fields of the header that are there before a backend is asked, such as those of limits. A
// ReverseProxy clears all fields after an informational answer such as 103.
type keepingWriter struct {
	http.ResponseWriter

	fields  http.Header
	cleared bool
	costs   *costs // nil: no policy settles by them
}

// Header returns the fields of the next answer.
func (w *keepingWriter) Header() http.Header {
	h := w.ResponseWriter.Header()
	if w.cleared {
		w.cleared = false
		maps.Copy(h, w.fields)
	}
	return h
}

// WriteHeader sends the fields.
func (w *keepingWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		w.costs.hide(w.ResponseWriter.Header()) // which were taken off only the last answer
	}
	w.ResponseWriter.WriteHeader(status)
	w.cleared = status < http.StatusOK
}

// Unwrap is for [http.ResponseController].
func (w *keepingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// trusts reports whether a request comes from a proxy that is believed.
func (p *proxy) trusts(r *http.Request) bool {
	c := p.state.Load().config
	if c == nil || len(c.Trusted) == 0 {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	peer := from.Addr().Unmap().WithZone("")
	for _, t := range c.Trusted {
		if t.Contains(peer) {
			return true
		}
	}
	return false
}

func isNotASCII(c rune) bool { return c < ' ' || c > '~' }

// errNoStatus is the error of an answer such as 099.
var errNoStatus = errors.New("the backend's status is none")

// body is a request's body that does not wait for ever. A transport may read it for some time after the answer.
type body struct {
	io.ReadCloser

	control *http.ResponseController

	mu    sync.Mutex // while the deadline is set
	ended bool       // the deadline is another's
}

func (b *body) Read(p []byte) (int, error) {
	if !b.within(time.Now().Add(stall.Time)) {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.within(time.Time{}) // the answer takes its time
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errStalled
	case err != nil:
		err = &clientError{err}
	}
	return n, err
}

// within sets the deadline of reads, and reports false after the end.
func (b *body) within(deadline time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.control.SetReadDeadline(deadline) // where there are none, there is nothing to be done
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
