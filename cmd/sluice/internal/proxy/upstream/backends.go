// Package upstream is the servers behind a proxy: which of them a request goes to, and when one is given up. It knows nothing
// of limits.
package upstream

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout = 3 * time.Second  // how long a backend may take to accept a connection
	probePeriod = time.Second      // how often an unreachable one is tried
	idleBackend = 90 * time.Second // until a connection that no one uses is closed, at most
)

// Backends distributes requests round-robin. A backend that refuses connections is taken out of rotation until it accepts them
// again.
type Backends struct {
	say   func(format string, args ...any)
	tried func(ctx context.Context, backend string)
	turn  atomic.Uint64
	pool  atomic.Pointer[pool]

	mu  sync.Mutex // one change at a time
	all atomic.Pointer[[]*Backend]
}

// Backend is one of them.
type Backend struct {
	name        string   // as the file has it
	url         *url.URL // of HTTP
	http2       bool     // and of no other version
	address     string   // to dial
	unreachable atomic.Bool
}

// pool is the connections to backends that may be silent for limit; 0: no limit.
type pool struct {
	limit        time.Duration
	keepHost     bool
	http1, http2 http.RoundTripper
	closeIdle    func() // closes the connections that no one uses
}

// NewBackends returns no backends yet. say prints a line; tried is called before a request is sent to a backend.
func NewBackends(say func(format string, args ...any), tried func(ctx context.Context, backend string)) *Backends {
	b := &Backends{say: say, tried: tried}
	b.all.Store(new([]*Backend))
	b.pool.Store(newPool(dialBackend, 0, false))
	return b
}

func dialBackend(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
}

// dialer makes connections to backends.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// newPool returns the connections that dial makes. With keepHost a backend gets the Host that the client sent.
func newPool(dial dialer, limit time.Duration, keepHost bool) *pool {
	idle, handshake := idleBackend, 10*time.Second
	if limit > 0 {
		idle = min(idle, limit/2) // the next request does not wait for a backend that has gone since
		handshake = min(handshake, limit)
	}
	transportOf := func(shared bool) *http.Transport {
		return &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				switch {
				case err != nil:
					return nil, &dialError{err}
				case shared && limit > 0:
					return &sharedConn{Conn: c, limit: limit}, nil
				}
				return c, nil
			},
			Protocols:             new(http.Protocols),
			DisableCompression:    true, // what the client accepts is the backend's to see
			MaxIdleConnsPerHost:   512,
			IdleConnTimeout:       idle,
			TLSHandshakeTimeout:   handshake,
			ExpectContinueTimeout: time.Second,
		}
	}
	one, two := transportOf(false), transportOf(true)
	one.Protocols.SetHTTP1(true)
	two.Protocols.SetHTTP2(true)
	two.Protocols.SetUnencryptedHTTP2(true)
	two.HTTP2 = &http.HTTP2Config{SendPingTimeout: limit / 2, PingTimeout: limit, WriteByteTimeout: limit} // 0: none; a response is no silence
	return &pool{
		limit: limit, keepHost: keepHost, http1: &transport{one, limit}, http2: two,
		closeIdle: func() {
			one.CloseIdleConnections()
			two.CloseIdleConnections()
		},
	}
}

// dialError is the error of a connection that could not be made: nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// Set replaces the backends by those of the URLs, which may be silent for limit. A backend that stays keeps its state.
func (b *Backends) Set(urls []*url.URL, limit time.Duration, keepHost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before := b.pool.Load(); before.limit != limit || before.keepHost != keepHost {
		b.pool.Store(newPool(dialBackend, limit, keepHost))
		before.closeIdle() // a connection in use is closed after its use
	}
	before := *b.all.Load()
	all := make([]*Backend, len(urls))
	for i, u := range urls {
		if known := slices.IndexFunc(before, func(k *Backend) bool { return k.name == u.String() }); known >= 0 {
			all[i] = before[known]
		} else {
			all[i] = newBackend(u)
		}
	}
	b.all.Store(&all)
	if !slices.Equal(before, all) {
		b.pool.Load().closeIdle()
	}
}

// Close ends the connections that no one uses, and tries no backend any more.
func (b *Backends) Close() {
	b.Set(nil, 0, false)
	b.pool.Load().closeIdle()
}

// order returns the backends as the next request tries them: first the ones that take connections, round-robin.
func (b *Backends) order() []*Backend {
	all := *b.all.Load()
	if len(all) < 2 {
		return all
	}
	var up, down []*Backend
	for _, k := range all {
		if k.unreachable.Load() {
			down = append(down, k)
		} else {
			up = append(up, k)
		}
	}
	first := int(b.turn.Add(1) % uint64(max(len(up), 1))) // of those that are up: each has the same share
	return slices.Concat(up[first:], up[:first], down)
}

var errNoBackend = errors.New("no backend available")

// RoundTrip sends a request to the first backend in turn that takes the connection. It changes the request's URL and
// Host, which are the forwarder's own.
func (b *Backends) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoBackend
	order, pool := b.order(), b.pool.Load()
	asked, body, host := *r.URL, r.Body, r.Host
	for i, k := range order {
		b.tried(r.Context(), k.name)
		*r.URL = asked
		to := httputil.ProxyRequest{Out: r}
		to.SetURL(k.url)
		if pool.keepHost {
			r.Host = host
		}
		if body != nil && body != http.NoBody && i < len(order)-1 {
			r.Body = io.NopCloser(body) // the next one may need it
		} else {
			r.Body = body
		}
		by := pool.http1
		if k.http2 {
			by = pool.http2
		}
		var answer *http.Response
		answer, err = by.RoundTrip(r)
		if !b.triesNext(r.Context(), k, err) {
			return answer, err
		}
	}
	return nil, err
}

// triesNext records whether a backend took a connection, and reports whether another one is to be tried.
func (b *Backends) triesNext(ctx context.Context, k *Backend, err error) bool {
	if _, dialing := errors.AsType[*dialError](err); !dialing {
		if k.unreachable.Load() && err == nil && k.unreachable.CompareAndSwap(true, false) {
			b.say("backend %s is reachable again; sending requests to it", k.name)
		}
		return false
	}
	if ctx.Err() != nil || IsExhausted(err) {
		return false // which is not its fault
	}
	if k.unreachable.CompareAndSwap(false, true) {
		b.say("backend %s is unreachable: %v; trying it again every %v", k.name, err, probePeriod)
		time.AfterFunc(probePeriod, func() { b.probe(k) })
	}
	return true
}

// States yields the backends by their names, and whether each takes connections.
func (b *Backends) States() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, k := range *b.all.Load() {
			if !yield(k.name, !k.unreachable.Load()) {
				return
			}
		}
	}
}

// IsExhausted reports whether this process, or the machine, has too many open files for one more connection.
func IsExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// probe tries an unreachable backend.
func (b *Backends) probe(k *Backend) {
	if !k.unreachable.Load() || !slices.Contains(*b.all.Load(), k) {
		return
	}
	c, err := net.DialTimeout("tcp", k.address, probePeriod) //nolint:noctx // it ends by itself
	if err != nil {
		time.AfterFunc(probePeriod, func() { b.probe(k) })
		return
	}
	_ = c.Close()
	if k.unreachable.CompareAndSwap(true, false) {
		b.say("backend %s is reachable again; sending requests to it", k.name)
	}
}

func newBackend(u *url.URL) *Backend {
	k := &Backend{name: u.String(), url: u}
	scheme, isHTTP2 := map[string]string{"h2c": "http", "h2": "https"}[u.Scheme]
	if isHTTP2 {
		as := *u
		as.Scheme = scheme
		k.url, k.http2 = &as, true
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[k.url.Scheme]
	}
	k.address = net.JoinHostPort(u.Hostname(), port)
	return k
}
