// Package upstream is the servers behind a proxy: which of them a request goes to, and when one is given up. It knows nothing
// of limits.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout   = 3 * time.Second  // how long a backend may take to accept a connection
	handshakeTime = 10 * time.Second // for TLS, at most
	probePeriod   = time.Second      // how often an unreachable backend is tried
)

// Backends distributes requests round-robin. A backend that refuses connections is taken out of rotation until it accepts them
// again.
type Backends struct {
	say     func(format string, args ...any)
	tried   func(ctx context.Context, backend string)
	turn    atomic.Uint64
	current atomic.Pointer[fleet]
}

// fleet is the backends of a configuration, which may be silent for limit, and the connections to them.
type fleet struct {
	all          []*backend
	keepHost     bool          // they get the Host that the client sent
	limit        time.Duration // 0: forever
	http1, http2 *http.Transport
}

type backend struct {
	name        string  // name as the file has it
	url         url.URL // URL of HTTP
	http2       bool    // and of no other version
	unreachable atomic.Bool
}

// NewBackends returns no backends yet. say prints a line; tried is called before a request is sent to a backend.
func NewBackends(say func(format string, args ...any), tried func(ctx context.Context, backend string)) *Backends {
	b := &Backends{say: say, tried: tried}
	b.current.Store(newFleet(dialBackend, 0))
	return b
}

// Set replaces the backends by those of the URLs, which may be silent for limit; 0: forever. With keepHost they get the Host that
// the client sent. A backend that stays keeps its state, and if all stay, the connections too. Two calls do not overlap.
func (b *Backends) Set(urls []*url.URL, limit time.Duration, keepHost bool) {
	before := b.current.Load()
	next := &fleet{limit: limit, http1: before.http1, http2: before.http2}
	if limit != before.limit {
		next = newFleet(dialBackend, limit)
	}
	next.keepHost = keepHost
	for _, u := range urls {
		if known := slices.IndexFunc(before.all, func(k *backend) bool { return k.name == u.String() }); known >= 0 {
			next.all = append(next.all, before.all[known])
		} else {
			next.all = append(next.all, newBackend(u))
		}
	}
	b.current.Store(next)
	if limit != before.limit || !slices.Equal(before.all, next.all) {
		before.closeIdle() // a connection in use is closed after its use
	}
}

// Close ends the connections that no one uses, and tries no backend any more.
func (b *Backends) Close() { b.Set(nil, 0, false) }

func newBackend(u *url.URL) *backend {
	k := &backend{name: u.String(), url: *u}
	switch u.Scheme {
	case "h2c":
		k.url.Scheme, k.http2 = "http", true
	case "h2":
		k.url.Scheme, k.http2 = "https", true
	}
	return k
}

// Up returns for each backend by its name whether it takes connections.
func (b *Backends) Up() map[string]bool {
	up := make(map[string]bool)
	for _, k := range b.current.Load().all {
		up[k.name] = !k.unreachable.Load()
	}
	return up
}

// order returns the backends as the next request tries them: first the ones that take connections, round-robin.
func (b *Backends) order(all []*backend) []*backend {
	if len(all) < 2 {
		return all
	}
	var up, down []*backend
	for _, k := range all {
		if k.unreachable.Load() {
			down = append(down, k)
		} else {
			up = append(up, k)
		}
	}
	first := int(b.turn.Add(1) % uint64(max(len(up), 1))) // a backend that is up: each has the same share
	return slices.Concat(up[first:], up[:first], down)
}

var errNoBackend = errors.New("no backend available")

// RoundTrip sends a request to the first backend in turn that takes the connection. It changes the request's URL and
// Host, which are the forwarder's own.
func (b *Backends) RoundTrip(r *http.Request) (*http.Response, error) {
	err := errNoBackend
	now := b.current.Load()
	order := b.order(now.all)
	asked, body, host := *r.URL, r.Body, r.Host
	for i, k := range order {
		b.tried(r.Context(), k.name)
		*r.URL = asked
		to := httputil.ProxyRequest{Out: r}
		to.SetURL(&k.url)
		if now.keepHost {
			r.Host = host
		}
		if body != nil && body != http.NoBody && i < len(order)-1 {
			r.Body = io.NopCloser(body) // the next one may need it
		} else {
			r.Body = body
		}
		var answer *http.Response
		answer, err = now.roundTrip(k, r)
		switch {
		case isDial(err) && r.Context().Err() == nil && !IsExhausted(err):
			b.note(k, err)
		case err == nil && k.unreachable.Load():
			b.note(k, nil)
			return answer, nil
		default:
			return answer, err
		}
	}
	return nil, err
}

// note notes whether a backend takes connections, and prints a change.
func (b *Backends) note(k *backend, err error) {
	switch {
	case !k.unreachable.CompareAndSwap(err == nil, err != nil):
	case err == nil:
		b.say("backend %s is reachable again; sending requests to it", k.name)
	default:
		b.say("backend %s is unreachable: %v; trying it again every %v", k.name, err, probePeriod)
		time.AfterFunc(probePeriod, func() { b.probe(k) })
	}
}

// probe tries an unreachable backend.
func (b *Backends) probe(k *backend) {
	if !k.unreachable.Load() || !slices.Contains(b.current.Load().all, k) {
		return
	}
	address := net.JoinHostPort(k.url.Hostname(), cmp.Or(k.url.Port(), k.url.Scheme))
	c, err := net.DialTimeout("tcp", address, probePeriod) //nolint:noctx // it ends by itself
	if err != nil {
		time.AfterFunc(probePeriod, func() { b.probe(k) })
		return
	}
	_ = c.Close()
	b.note(k, nil)
}

// isDial reports whether err is that of a connection that could not be made, so that nothing was sent.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// IsExhausted reports whether this process, or the machine, has too many open files for one more connection.
func IsExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// IsTimeout reports whether err comes of a backend that took the connection, and was then silent.
func IsTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, errTimeout) || ok && timeout.Timeout() && !isDial(err)
}
