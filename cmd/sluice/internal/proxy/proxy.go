// Package proxy is a reverse proxy that limits: package httplimit in front of net/http/httputil's ReverseProxy, as a
// file of package config says.
//
// The way of a request, from the outside to the inside; an answer goes back through the same:
//
//	serve.go      doors         a connection takes permits, or is closed           (doors.go)
//	stall         Listener      a client that reads nothing of an answer is cut off
//	web.go        active        counts it, for the end of the program
//	visit.go      visits        its line in the access log, and its metrics        (accesslog.go, metrics.go)
//	web.go        prompt        an answer may come before the body
//	routes.go     router        its route; the configuration in force from here on (proxy.go: state)
//	routes.go     unambiguous   400 if a backend may read another key
//	cost.go       withCosts     what the backend says that it has cost
//	httplimit     Handler       the global policy
//	httplimit     Policy        those of the route                                 (policies.go, limit.go, groups.go)
//	upgrade.go    withBandwidth limits on the bytes of what is upgraded
//	forward.go    newForwarder  the body, the header, failures                     (answers.go, grpc.go)
//	upstream      Backends      which backend; whether it is silent
package proxy

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	admit "github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/spec"
)

// proxy is a proxy with its present configuration.
type proxy struct {
	file     string
	id       string // tells it from other proxies
	tcp      bool
	say      func(format string, args ...any) // prints a line for the user
	ready    func()                           // called when it listens
	log      *slog.Logger                     // prints with say, for httplimit
	keys     keys
	backends *upstream.Backends
	metrics  *metrics
	forward  http.Handler // to the backends
	store    *shared.Store
	access   *accessLog // nil: none
	draining atomic.Bool
	quiet    seldom // of sayOften
	refusals seldom // of connections
	failures *core.TokenBucket
	unsaid   atomic.Int64 // failures without a line

	mu    sync.Mutex // one change at a time
	text  []byte     // of the file, when it was read last
	state atomic.Pointer[state]
}

// state is a configuration and what was built from it.
type state struct {
	config   *config.Config
	policies []*policy           // the global one first, if there is one
	known    map[identity]*limit // all limits
	handler  http.Handler        // of HTTP
	doors    []*limit            // of connections
	global   *policy             // nil: none
	cert     *tls.Certificate    // nil: no TLS

	connections *admit.Set[*http.Request] // the doors: a connection takes a permit of each
	tcp         *admit.Set[*http.Request] // the global policy, for connections as they are
}

// newProxy returns a proxy with the configuration of the file, or an error that joins the faults of the file.
func newProxy(file string, tcp bool, say func(format string, args ...any)) (*proxy, error) {
	p := &proxy{file: file, id: rand.Text(), tcp: tcp, say: say, ready: func() {}, metrics: newMetrics()}
	p.log = cli.NewLogger(say)
	p.failures = core.Must(core.NewTokenBucket(core.PerSecond(failuresPerSecond, failuresPerSecond)))
	p.backends = upstream.New(say, visited)
	p.forward = newForwarder(p)
	p.state.Store(&state{})
	p.metrics.watch(p)
	err := p.load()
	return p, err
}

// sayOften prints a line about something that may happen at each request, once a second at most.
func (p *proxy) sayOften(format string, args ...any) {
	if _, ok := p.quiet.passes(time.Second); ok {
		p.say(format, args...)
	}
}

// load reads the file and applies it.
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
		_, backends := p.backendsOf(c)
		_, pair := keyPair(c)
		return config.Join(err, backends, pair, checkFixed(before.config, c))
	}
	if err != nil {
		return err
	}
	cert, err := keyPair(c)
	if p.state.Load().config == nil && !p.tcp {
		err = config.Join(err, checkLogFolder(c))
	}
	if err := p.applyLocked(c, cert, err); err != nil {
		return err
	}
	if !p.tcp { // which has the global policy alone
		for _, w := range c.Warnings() {
			p.say("%v", w)
		}
	}
	return nil
}

// checkLogFolder finds an access log that could not be opened at the start for want of its folder.
func checkLogFolder(c *config.Config) error {
	if c.AccessLog == "" || c.AccessLog == "-" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(c.AccessLog)); err != nil {
		return c.Fault(c.Where("access-log"), "access-log: %v", err)
	}
	return nil
}

// keyPair reads the certificate and its key. It returns nil if c has none.
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

// applyLocked applies a configuration as a whole. If anything is wrong with it, or was found wrong with cert, nothing
// changes.
func (p *proxy) applyLocked(c *config.Config, cert *tls.Certificate, wrong error) error {
	before := p.state.Load()
	next := &state{config: c, cert: cert}
	backends, err := p.backendsOf(c)
	faults := []error{err, checkFixed(before.config, c), wrong}
	store := p.store
	if c.Redis != "" && store == nil {
		if store, err = shared.Open(c.Redis, c.RedisBudget); err != nil {
			faults = append(faults, c.Fault(c.Where("redis"), "redis: %v", err))
			return config.Join(faults...)
		}
	}
	keys := &p.keys
	if keys.byIP.Load() == nil {
		keys.most = c.Keys
		keys.trust(c.Trusted)
	}
	d := draft{config: c, store: store, keys: keys, say: p.say, before: before, rejected: p.rejectedBy}
	faults = append(faults, d.make())
	if p.tcp {
		faults = append(faults, tcpFaults(c))
	}
	if err := config.Join(faults...); err != nil {
		return err
	}
	next.policies, next.known, next.doors = d.policies, d.limits, d.doors
	if next.connections, err = openDoors(d.doors); err != nil {
		return err
	}
	if c.Global != nil {
		next.global = d.policies[0]
	}
	if err := p.route(next, &d); err != nil {
		return err
	}
	if before.config != nil { // at the start this is done before the proxy listens
		warm(store, d.limits)
	}
	// From here on nothing can fail.
	p.store = store
	keys.trust(c.Trusted)
	p.backends.Set(backends, c.BackendTimeout, c.KeepHost)
	p.state.Store(next)
	for _, update := range d.updates {
		update()
	}
	return nil
}

// warm prepares the Redis server for each kind of limit in use.
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

// backendsOf returns the backends of c.
func (p *proxy) backendsOf(c *config.Config) ([]*upstream.Backend, error) {
	if p.tcp {
		addresses, err := c.Addresses()
		return upstream.TCP(addresses), err
	}
	urls, err := c.Backends()
	return upstream.HTTP(urls), err
}

// checkFixed finds changes that need a restart.
func checkFixed(before, c *config.Config) error {
	if before == nil {
		return nil
	}
	var faults []error
	for _, f := range []struct{ key, was, is string }{
		{"listen", before.Listen, c.Listen},
		{"admin", before.Admin, c.Admin},
		{"access-log", before.AccessLog, c.AccessLog},
		{"format", string(before.LogFormat), string(c.LogFormat)},
		{"keys", strconv.Itoa(before.Keys), strconv.Itoa(c.Keys)},
		{"redis-budget", before.RedisBudget.String(), c.RedisBudget.String()},
		{"cert", onOff(before.Cert), onOff(c.Cert)},
	} {
		if f.was != f.is {
			faults = append(faults, c.Fault(c.Where(f.key), "%s was %q and is %q: that needs a restart", f.key, f.was, f.is))
		}
	}
	if before.Redis != c.Redis { // either may hold a password
		faults = append(faults, c.Fault(c.Where("redis"), "redis is another: that needs a restart"))
	}
	return errors.Join(faults...)
}

func onOff(file string) string {
	if file == "" {
		return "none"
	}
	return "a file"
}

// change replaces the limits of one policy until the file is read again.
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
		if err := next.CheckLimits(); err != nil {
			return err
		}
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

// close closes what a proxy has besides its listeners.
func (p *proxy) close() {
	p.backends.Close()
	for _, l := range p.state.Load().known {
		for f := range l.all {
			_ = f.Close()
		}
	}
	if p.store != nil {
		_ = p.store.Close()
	}
	if p.access != nil {
		_ = p.access.close()
	}
}
