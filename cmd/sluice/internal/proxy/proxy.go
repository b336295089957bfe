// Package proxy is a reverse proxy that limits: package httplimit in front of net/http/httputil's ReverseProxy, as a
// file of package config says.
package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/spec"
)

// proxy is a proxy under the configuration in force.
type proxy struct {
	file     string
	tcp      bool
	say      func(format string, args ...any) // tells a person
	log      *slog.Logger                     // the same, for httplimit
	keys     keys
	backends *backends
	metrics  *metrics
	forward  http.Handler // to the backends
	store    *shared.Store
	draining atomic.Bool

	mu    sync.Mutex // one change at a time
	text  []byte     // of the file, when it was read last
	state atomic.Pointer[state]
}

// state is what a configuration has become.
type state struct {
	config   *config.Config
	policies []*policy // the global one first, if there is one
	limits   map[identity]*limit
	handler  http.Handler     // of HTTP
	global   *policy          // nil: none
	cert     *tls.Certificate // nil: no TLS
}

// newProxy returns a proxy under the file, or all that is wrong with it.
func newProxy(file string, tcp bool, say func(format string, args ...any)) (*proxy, error) {
	p := &proxy{file: file, tcp: tcp, say: say, metrics: newMetrics()}
	p.log = slog.New(slog.NewTextHandler(sayer(say), &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	p.backends = newBackends(say)
	p.forward = newForwarder(p)
	p.state.Store(&state{})
	p.metrics.watch(p)
	err := p.load()
	return p, err
}

// sayer writes lines of a log to a person.
type sayer func(format string, args ...any)

func (s sayer) Write(line []byte) (int, error) {
	s("%s", bytes.TrimSpace(line))
	return len(line), nil
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
		return slog.Attr{}
	}
	return a
}

// load puts the file in force.
func (p *proxy) load() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	p.text = text
	c, err := config.Parse(p.file, text)
	if err != nil && c != nil {
		before := p.state.Load()
		_, ends := p.ends(c)
		_, pair := keyPair(c)
		return config.Join(err, ends, pair, unchangeable(before.config, c))
	}
	if err != nil {
		return err
	}
	cert, err := keyPair(c)
	return p.applyLocked(c, cert, err)
}

// keyPair reads the certificate and its key; nil if c has none.
func keyPair(c *config.Config) (*tls.Certificate, error) {
	if c.Cert == "" || c.Key == "" {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, c.Fault(c.Where("cert"), "tls: %s", strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &pair, nil
}

// applyLocked puts a configuration in force as a whole; if anything is wrong with it or with its cert, nothing changes.
func (p *proxy) applyLocked(c *config.Config, cert *tls.Certificate, wrong error) error {
	before := p.state.Load()
	next := &state{config: c, cert: cert}
	ends, err := p.ends(c)
	faults := []error{err, unchangeable(before.config, c), wrong}
	store := p.store
	if c.Redis != "" && store == nil {
		if store, err = shared.Open(c.Redis, c.RedisBudget); err != nil {
			faults = append(faults, c.Fault(c.Where("redis"), "redis: %v", err))
			return config.Join(faults...)
		}
	}
	keys := &p.keys
	if keys.byIP.Load() == nil {
		keys.trust(c.Trusted)
	}
	d := draft{config: c, store: store, keys: keys, before: before.limits}
	faults = append(faults, d.make())
	if p.tcp {
		faults = append(faults, tcpFaults(c))
	}
	if err := config.Join(faults...); err != nil {
		return err
	}
	next.policies, next.limits = d.policies, d.limits
	if c.Global != nil {
		next.global = d.policies[0]
	}
	if next.handler, err = p.handler(&d); err != nil {
		return err
	}
	if before.config != nil { // a proxy that starts does so when it is about to serve
		warm(store, d.limits)
	}
	// From here on nothing can fail.
	p.store = store
	keys.trust(c.Trusted)
	p.backends.set(ends, c.BackendTimeout)
	p.state.Store(next)
	for _, update := range d.updates {
		update()
	}
	return nil
}

// warm has the server of Redis ready for limits of all kinds that there are.
func warm(store *shared.Store, limits map[identity]*limit) {
	if store == nil {
		return
	}
	kinds := make(map[spec.Kind]bool)
	var each []spec.Limit
	for id, l := range limits {
		if id.kind != spec.Unlimited && !kinds[id.kind] {
			kinds[id.kind] = true
			each = append(each, *l.terms.Load())
		}
	}
	store.Warm(each)
}

// ends returns the backends of c.
func (p *proxy) ends(c *config.Config) ([]*backend, error) {
	if p.tcp {
		addresses, err := c.Addresses()
		return tcpBackends(addresses), err
	}
	urls, err := c.Backends()
	return httpBackends(urls), err
}

// unchangeable finds what a running proxy cannot change.
func unchangeable(before, c *config.Config) error {
	if before == nil {
		return nil
	}
	var faults []error
	for _, f := range []struct{ key, was, is string }{
		{"listen", before.Listen, c.Listen},
		{"admin", before.Admin, c.Admin},
		{"redis", before.Redis, c.Redis},
		{"redis-budget", before.RedisBudget.String(), c.RedisBudget.String()},
		{"cert", onOff(before.Cert), onOff(c.Cert)},
	} {
		if f.was != f.is {
			faults = append(faults, c.Fault(c.Where(f.key), "%s was %q and is %q: that needs a restart", f.key, f.was, f.is))
		}
	}
	return errors.Join(faults...)
}

func onOff(file string) string {
	if file == "" {
		return "none"
	}
	return "a file"
}

// handler returns what serves requests under d.
func (p *proxy) handler(d *draft) (http.Handler, error) {
	o, err := d.options(httplimit.Options{Logger: p.log, Observer: p.metrics})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(o)
	if err != nil {
		return nil, d.config.Fault(config.Position{Line: 1, Column: 1}, "%v", err)
	}
	routes := d.config.Routes
	if len(routes) == 0 {
		routes = []config.Route{{Pattern: "/"}}
	}
	mux := http.NewServeMux()
	for _, r := range routes {
		switch {
		case r.Exempt:
			mux.Handle(r.Pattern, route{p.forward})
		case len(r.Policies) > 0:
			mux.Handle(r.Pattern, route{limits.Handler(limits.Policy(r.Policies...)(p.forward))})
		default:
			mux.Handle(r.Pattern, route{limits.Handler(p.forward)})
		}
	}
	return &router{mux, limits.Handler(mux)}, nil
}

// router asks its mux once where a request goes; inside of a handler of limits a mux is asked twice.
type router struct {
	mux    *http.ServeMux // its handlers are routes
	others http.Handler   // for what is no route: redirects, 404 and 405, all under the global policy
}

type route struct{ http.Handler }

func (m *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, pattern := m.mux.Handler(r)
	to, ok := h.(route)
	if !ok || r.RequestURI == "*" {
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			// Nobody reads the body, and net/http cannot go on behind one after prompt.
			w.Header().Set("Connection", "close")
		}
		m.others.ServeHTTP(w, r)
		return
	}
	r.Pattern = pattern // for keys
	to.ServeHTTP(w, r)
}

// ServeHTTP serves a request under the configuration in force when it came.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.state.Load().handler.ServeHTTP(w, r)
}

// change puts other limits of one policy in force, until the file is read again.
func (p *proxy) change(name string, limits []spec.Limit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := *p.state.Load().config
	c.Policies = slices.Clone(c.Policies)
	changed := false
	for _, policy := range p.state.Load().policies {
		if policy.Name != name {
			continue
		}
		next := policy.Policy
		next.Limits, next.Places = limits, slices.Repeat([]config.Position{policy.At}, len(limits))
		if c.Global != nil && c.Global.Name == name {
			c.Global = &next
		}
		for i := range c.Policies {
			if c.Policies[i].Name == name {
				c.Policies[i] = next
			}
		}
		changed = true
	}
	if !changed {
		return errNoPolicy
	}
	return p.applyLocked(&c, p.state.Load().cert, nil)
}

var errNoPolicy = errors.New("no policy has that name")

// close ends what a proxy has beside its listeners.
func (p *proxy) close() {
	p.backends.close()
	for _, l := range p.state.Load().limits {
		for f := range l.all {
			_ = f.Close()
		}
	}
	if p.store != nil {
		_ = p.store.Close()
	}
}
