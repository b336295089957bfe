package proxy

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// limit is one limit of a policy: a limiter for each key, or one for all requests. Its terms may change while it is used.
type limit struct {
	id    identity
	store *shared.Store // nil: this process' own

	terms atomic.Pointer[spec.Limit] // each change has a pointer of its own
	asked httplimit.Limiter
	all   iter.Seq[*follower]                // the live limiters
	live  func(key []config.Value) *follower // the live one of a key; nil: there is none
	names func(key []config.Value) []string  // of the limiter of a key, and of the one of its group
	one   *follower                          // of a limit without a key; nil: see count
	count func() partition.Counts            // of a limit with a key; nil: see one

	refused atomic.Uint64 // connections
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

// What a limit is of, besides "upload" and "download".
const (
	requests    = "requests"
	connections = "connections"
)

// newLimit returns a limit. Without a key all requests share one limiter.
func newLimit(id identity, key config.Key, l spec.Limit, store *shared.Store, keys *keys) (*limit, error) {
	m := &limit{id: id, store: store}
	m.terms.Store(&l)
	if l.Kind == spec.Unlimited {
		m.asked = partition.Shared[*http.Request](core.Unlimited())
		m.all = func(func(*follower) bool) {}
		m.live = func([]config.Value) *follower { return nil }
		return m, nil
	}
	one, err := m.follow("") // with a key: to find out now whether there can be such limiters
	if err != nil {
		return nil, err
	}
	if len(key) == 0 {
		m.one = one
		m.asked = partition.Shared[*http.Request](one)
		m.all = func(yield func(*follower) bool) { yield(one) }
		m.live = func([]config.Value) *follower { return one }
		return m, nil
	}
	defer func() { _ = one.Close() }()
	if len(key) == 1 && key[0].Kind == config.KeyIP {
		return m, keyed(m, keys.most, keys.client, func(values []config.Value) netip.Prefix { return values[0].Network })
	}
	values := keys.values(key)
	return m, keyed(m, keys.most, func(r *http.Request) string { return config.JoinKey(values(r)) }, config.JoinKey)
}

// keyed gives m a limiter for each key, of which there are at most most, and one for each group of the other keys. join
// returns the key of its parts' values.
func keyed[K comparable](m *limit, most int, key func(*http.Request) K, join func([]config.Value) K) error {
	own, err := partition.New(partition.Options[*http.Request, K]{
		Name:          m.id.policy,
		Key:           key,
		New:           func(key K) (core.Limiter, error) { return m.follow(nameOf(key)) },
		MaxPartitions: most,
	})
	if err != nil {
		return err
	}
	rest, err := partition.New(partition.Options[*http.Request, uint16]{
		Name: m.id.policy,
		Key:  func(r *http.Request) uint16 { return groupOf(key(r)) },
		New:  func(group uint16) (core.Limiter, error) { return m.follow(nameOfGroup(group)) },
	})
	if err != nil {
		return err
	}
	m.asked, m.count = &grouped{own, rest}, own.Counts
	m.all = func(yield func(*follower) bool) {
		for _, l := range own.All() {
			if f, ok := l.(*follower); ok && !yield(f) {
				return
			}
		}
		for _, l := range rest.All() {
			if f, ok := l.(*follower); ok && !yield(f) {
				return
			}
		}
	}
	m.live = func(values []config.Value) *follower {
		key := join(values)
		l, ok := own.Get(key)
		if !ok {
			l, _ = rest.Get(groupOf(key))
		}
		f, _ := l.(*follower)
		return f
	}
	m.names = func(values []config.Value) []string {
		key := join(values)
		return []string{nameOf(key), nameOfGroup(groupOf(key))}
	}
	return nil
}

// nameOf tells the limiter of a key from the limit's others on a server of Redis.
func nameOf[K comparable](key K) string { return fmt.Sprint("=", key) }

func nameOfGroup(group uint16) string { return fmt.Sprint("~", group) }

// update sets other terms of the same kind, for live limiters and later ones.
func (m *limit) update(l spec.Limit) {
	if *m.terms.Load() == l {
		return
	}
	m.terms.Store(&l)
	for f := range m.all {
		f.catchUp()
	}
}

// follow makes a limiter with the present terms.
func (m *limit) follow(key string) (*follower, error) {
	terms := m.terms.Load()
	made, err := m.make(*terms, key)
	if err != nil {
		return nil, err
	}
	l, ok := made.(limiter)
	if !ok {
		return nil, fmt.Errorf("a limiter of kind %s cannot be refunded", terms.Kind)
	}
	f := &follower{limiter: l, limit: m, key: key}
	f.terms.Store(terms)
	return f, nil
}

// make makes a limiter. On a server of Redis key tells it from the limit's others.
func (m *limit) make(l spec.Limit, key string) (core.Limiter, error) {
	name := m.id.policy
	if m.store == nil {
		return l.New(name)
	}
	terms := redislimit.Shared{Key: m.onServer(key)}
	if m.id.what != requests { // a body that has begun is not cut off because Redis is away
		local, err := l.New(name)
		if err != nil {
			return nil, err
		}
		terms.Down, terms.Local = redislimit.DownLocal, local
	}
	return m.store.New(l, name, terms)
}

// onServer returns the name of a limiter on a server of Redis.
func (m *limit) onServer(key string) string { return onServer(m.id.shared() + key) }

// onServer returns a name without characters that patterns and hash slots of Redis take for special.
func onServer(name string) string { return "sluice/" + url.QueryEscape(name) }

// limiter is what all limiters of core and redislimit are.
type limiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Refunder
	io.Closer
}

// follower is a limiter that follows the terms of its limit, also if they change while it is made.
type follower struct {
	limiter

	limit *limit
	key   string     // what [limit.make] was told
	mu    sync.Mutex // one update at a time
	terms atomic.Pointer[spec.Limit]
}

func (f *follower) TryAcquire(permits int) core.Lease {
	f.catchUp()
	return f.limiter.TryAcquire(permits)
}

func (f *follower) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	f.catchUp() //nolint:contextcheck // new terms are for all callers
	return f.limiter.Acquire(ctx, permits)
}

// Settle corrects the cost of a lease, where the limiter can do that.
func (f *follower) Settle(l core.Lease, permits int) core.Lease {
	if s, ok := f.limiter.(core.Settler); ok {
		return s.Settle(l, permits)
	}
	if permits <= 0 {
		f.Refund(l)
	}
	return l
}

func (f *follower) catchUp() {
	if f.terms.Load() != f.limit.terms.Load() {
		f.ask()
	}
}

// ask puts the present terms into the limiter. One on a server of Redis asks the server then, and remembers nothing older.
func (f *follower) ask() {
	f.mu.Lock()
	defer f.mu.Unlock()
	terms := f.limit.terms.Load()
	// The kind is the same and the terms are valid, so the only error left is that the limiter is closed.
	_ = shared.Update(*terms, f.limiter)
	f.terms.Store(terms)
}
