package limits

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// Limit is one limit of a policy, or of connections. It has one limiter for all requests or one per key, or, if it is unlimited,
// none. Its terms may change while it is used.
type Limit struct {
	id    identity
	store *shared.Store // nil: this process's own

	terms    atomic.Pointer[spec.Limit] // each change has a pointer of its own
	one      *liveLimiter               // nil: there is one per key, or none
	keyed    *keyed                     // nil: the limit has no key, or is unlimited
	rejected atomic.Uint64              // connections
}

// identity tells limits apart. A limit keeps it for as long as it lives.
type identity struct {
	policy   string
	what     string // requests, connections, upload or download
	key      string // as the file has it
	override string // name of the policy's override; "": none
	kind     spec.Kind
	nth      int // of this kind in the policy, or in the override
}

// shared returns the limit's name on a Redis server. It has the whole identity, so that a proxy whose file has changed and
// one that starts with that file share the limit.
func (id identity) shared() string {
	name := fmt.Sprintf("%s/%s/%s-%d/%s", id.policy, id.what, id.kind, id.nth+1, id.key)
	if id.override != "" {
		name += "/" + url.QueryEscape(id.override)
	}
	return name
}

// What a limit is of.
const (
	requests    = "requests"
	connections = "connections"
	upload      = "upload"
	download    = "download"
)

// newLimit returns a limit. Without a key all requests share one limiter.
func newLimit(id identity, key config.Key, l spec.Limit, store *shared.Store, keys *Keys) (*Limit, error) {
	m := &Limit{id: id, store: store}
	m.terms.Store(&l)
	if l.Kind == spec.Unlimited {
		return m, nil
	}
	one, err := m.follow("") // with a key: to find out now whether there can be such limiters
	if err != nil || len(key) == 0 {
		m.one = one
		return m, err
	}
	_ = one.Close()
	m.keyed, err = newKeyed(m, keys.max, keys.values(key))
	return m, err
}

// Limiter returns what decides about requests.
func (m *Limit) Limiter() httplimit.Limiter {
	switch {
	case m.keyed != nil:
		return m.keyed
	case m.one != nil:
		return partition.Shared[*http.Request](m.one)
	}
	return partition.Shared[*http.Request](core.Unlimited())
}

// For returns the limiter of a request, or of a connection. Those of a limit without a key share one, and its bandwidth in
// equal parts.
func (m *Limit) For(r *http.Request) core.Limiter {
	if m.one != nil {
		return m.one
	}
	return partition.For(m.Limiter(), r)
}

// live yields the limiters that there are now.
func (m *Limit) live(yield func(*liveLimiter) bool) {
	switch {
	case m.keyed != nil:
		m.keyed.live(yield)
	case m.one != nil:
		yield(m.one)
	}
}

// of returns the live limiter of a key, or nil if there is none.
func (m *Limit) of(key []string) *liveLimiter {
	if m.keyed != nil {
		return m.keyed.of(key)
	}
	return m.one
}

// Name returns the name of the policy, or of the limit on connections.
func (m *Limit) Name() string { return m.id.policy }

// Key returns the limit's key as the file has it; "": none.
func (m *Limit) Key() string { return m.id.key }

// Terms returns what the limit is now.
func (m *Limit) Terms() spec.Limit { return *m.terms.Load() }

// update sets other terms of the same kind, for live limiters and later ones.
func (m *Limit) update(l spec.Limit) {
	if m.Terms() == l {
		return
	}
	m.terms.Store(&l)
	for f := range m.live {
		f.applyTerms()
	}
}

func (m *Limit) close() {
	for f := range m.live {
		_ = f.Close()
	}
}

// follow makes a limiter with the present terms. On a Redis server name tells it from the limit's others.
func (m *Limit) follow(name string) (*liveLimiter, error) {
	terms := m.terms.Load()
	made, local, err := m.make(*terms, name)
	if err != nil {
		return nil, err
	}
	l, ok := made.(limiter)
	if !ok {
		return nil, fmt.Errorf("a limiter of kind %s cannot be refunded", terms.Kind)
	}
	f := &liveLimiter{limiter: l, local: local, limit: m, name: name}
	f.terms.Store(terms)
	return f, nil
}

// make makes a limiter and, if it is on a Redis server, the local one that decides while the server is unreachable.
func (m *Limit) make(l spec.Limit, name string) (made, local core.Limiter, err error) {
	if m.store == nil {
		made, err = l.New(m.id.policy)
		return made, nil, err
	}
	terms := redislimit.StoreOptions{Key: m.onServer(name)}
	if m.id.what != requests { // a body that has started is not cut off because Redis is away
		if local, err = l.New(m.id.policy); err != nil {
			return nil, nil, err
		}
		terms.Unavailable, terms.Local = redislimit.UseLocal, local
	}
	made, err = m.store.New(l, m.id.policy, terms)
	return made, local, err
}

// onServer returns what a limiter is named on a Redis server.
func (m *Limit) onServer(name string) string { return onServer(m.id.shared() + name) }

// onServer returns a name without characters that patterns and hash slots of Redis take for special.
func onServer(name string) string { return "sluice/" + url.QueryEscape(name) }
