package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 3 * time.Second // how long a backend may take to accept a connection
	probePeriod = time.Second     // how often one that is away is looked for
)

// backends are those that requests go to, in turns. One that does not answer is left out until it does again.
type backends struct {
	say    func(format string, args ...any)
	dialer net.Dialer
	base   atomic.Pointer[transport]
	turn   atomic.Uint64
	begun  time.Time  // see stalling
	mu     sync.Mutex // one change at a time
	all    atomic.Pointer[[]*backend]
}

// backend is one of them.
type backend struct {
	name    string   // as the file has it
	url     *url.URL // of HTTP
	address string   // to dial
	away    atomic.Bool
	removed atomic.Bool
}

func newBackends(say func(format string, args ...any)) *backends {
	b := &backends{say: say, dialer: net.Dialer{Timeout: dialTimeout}, begun: time.Now()}
	b.all.Store(new([]*backend))
	b.base.Store(b.transport(0))
	return b
}

// transport returns what sends requests to backends that may be silent for limit; 0: for ever.
func (b *backends) transport(limit time.Duration) *transport {
	t := &transport{limit: limit, Transport: http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := b.dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			if limit > 0 {
				c = &stallingConn{Conn: c, begun: b.begun, stall: limit}
			}
			return c, nil
		},
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // what the client accepts is the backend's to see
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}}
	if limit > 0 {
		t.watch = newWatch(limit)
	}
	return t
}

// dialError is the error of a connection that could not be made: nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// set puts other backends in the place of those of before, which may be silent for limit. One that stays keeps what is
// known of it.
func (b *backends) set(next []*backend, limit time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before := b.base.Load(); before.limit != limit {
		b.base.Store(b.transport(limit))
		before.CloseIdleConnections() // those in use end with what they are used for
	}
	before := *b.all.Load()
	all := make([]*backend, len(next))
	kept := make(map[*backend]bool)
	for i, n := range next {
		all[i] = n
		for _, old := range before {
			if old.name == n.name {
				all[i] = old
				kept[old] = true
			}
		}
	}
	for _, old := range before {
		if !kept[old] {
			old.removed.Store(true)
		}
	}
	b.all.Store(&all)
	if len(before) > len(kept) {
		b.base.Load().CloseIdleConnections()
	}
}

// close ends the connections that nobody uses, and looks for nobody any more.
func (b *backends) close() {
	b.set(nil, 0)
	b.base.Load().CloseIdleConnections()
}

// order returns the backends as the next request tries them: those that answer in turns, then the others.
func (b *backends) order() []*backend {
	all := *b.all.Load()
	if len(all) < 2 {
		return all
	}
	first := int(b.turn.Add(1) % uint64(len(all))) //nolint:gosec // below len(all)
	order := make([]*backend, 0, len(all))
	for _, away := range []bool{false, true} {
		for i := range all {
			if k := all[(first+i)%len(all)]; k.away.Load() == away && len(order) < cap(order) {
				order = append(order, k)
			}
		}
	}
	return order
}

var errNoBackend = errors.New("there is no backend")

// RoundTrip sends a request to the first backend in turn that takes the connection. It changes the request's URL, which
// is the forwarder's own.
func (b *backends) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoBackend
	order, base := b.order(), b.base.Load()
	asked, body := *r.URL, r.Body
	for i, k := range order {
		*r.URL = asked
		to := httputil.ProxyRequest{Out: r}
		to.SetURL(k.url)
		if body != nil && body != http.NoBody && i < len(order)-1 {
			r.Body = io.NopCloser(body) // the next one may need it
		} else {
			r.Body = body
		}
		var answer *http.Response
		answer, err = base.RoundTrip(r)
		if !b.noted(r.Context(), k, err) {
			return answer, err
		}
	}
	return nil, err
}

// noted notes whether a backend took a connection, and reports whether another one is to be tried.
func (b *backends) noted(ctx context.Context, k *backend, err error) (another bool) {
	if _, dialing := errors.AsType[*dialError](err); !dialing {
		if k.away.Load() && err == nil && k.away.CompareAndSwap(true, false) {
			b.say("backend %s is back", k.name)
		}
		return false
	}
	if ctx.Err() != nil {
		return false // it was not asked for long enough
	}
	if k.away.CompareAndSwap(false, true) {
		b.say("backend %s is away: %v", k.name, err)
		time.AfterFunc(probePeriod, func() { b.probe(k) })
	}
	return true
}

// probe looks whether a backend is back.
func (b *backends) probe(k *backend) {
	if k.removed.Load() || !k.away.Load() {
		return
	}
	c, err := net.DialTimeout("tcp", k.address, probePeriod) //nolint:noctx // it ends by itself
	if err != nil {
		time.AfterFunc(probePeriod, func() { b.probe(k) })
		return
	}
	_ = c.Close()
	if k.away.CompareAndSwap(true, false) && !k.removed.Load() {
		b.say("backend %s is back", k.name)
	}
}

// dial connects to the first backend in turn that takes the connection.
func (b *backends) dial(ctx context.Context) (net.Conn, error) {
	err := errNoBackend
	for _, k := range b.order() {
		var c net.Conn
		if c, err = b.dialer.DialContext(ctx, "tcp", k.address); err == nil {
			b.noted(ctx, k, nil)
			return c, nil
		}
		b.noted(ctx, k, &dialError{err})
	}
	return nil, err
}

// httpBackends are backends by their URLs.
func httpBackends(urls []*url.URL) []*backend {
	all := make([]*backend, len(urls))
	for i, u := range urls {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		all[i] = &backend{name: u.String(), url: u, address: net.JoinHostPort(u.Hostname(), port)}
	}
	return all
}

// tcpBackends are backends by their addresses.
func tcpBackends(addresses []string) []*backend {
	all := make([]*backend, len(addresses))
	for i, a := range addresses {
		all[i] = &backend{name: a, address: a}
	}
	return all
}
