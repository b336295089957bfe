// Package limits is the limits of a proxy: what a file of package config says of policies and of connections, as limiters.
// It knows requests by their keys, and nothing of how they are served.
//
// A [Set] is the limits of one file. A [Policy] has several [Limit]s, and a Limit has limiters (limit.go): none, one, or one
// per key (keyed.go), all of which follow its terms (live.go). When the file changes, the next Set takes over the
// limits that stay, with what they have granted.
package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/spec"
)

// Set is the limits of one file.
type Set struct {
	Policies    []*Policy // the global one first, if there is one
	Global      *Policy   // nil: none
	Connections []*Limit  // of connections, each of which takes a permit of all

	store     *shared.Store // nil: limits are this process's own
	keys      *Keys
	known     map[identity]*Limit // all limits
	admission httplimit.Limiter   // all of Connections; nil: none
	updates   []func()            // put new terms into the limits that stay
}

// New returns the limits of a file. Those of the Set before, which may be empty, are reused if they stay, and nothing has
// changed until Apply changes their terms.
func New(c *config.Config, store *shared.Store, keys *Keys, before *Set) (*Set, error) {
	s := &Set{store: store, keys: keys, known: make(map[identity]*Limit)}
	d := builder{Set: s, config: c, before: before}
	for _, p := range c.AllPolicies() {
		s.Policies = append(s.Policies, d.policy(p))
	}
	if c.Global != nil {
		s.Global = s.Policies[0]
	}
	d.connections("connections", nil, c.Connections)
	d.connections("connections-per-ip", config.Key{{Kind: config.KeyIP}}, c.ConnectionsPerIP)
	if err := errors.Join(d.faults...); err != nil {
		return nil, err
	}
	var err error
	s.admission, err = chain(s.Connections)
	return s, err
}

// Apply puts new terms into the limits that stay.
func (s *Set) Apply() {
	for _, update := range s.updates {
		update()
	}
	s.updates = nil
}

// Warm prepares the Redis server for each kind of limit in use.
func (s *Set) Warm() {
	if s.store == nil {
		return
	}
	kinds := make(map[spec.Kind]bool)
	var each []spec.Limit
	for id, l := range s.known {
		if id.kind != spec.Unlimited && !kinds[id.kind] {
			kinds[id.kind] = true
			each = append(each, l.Terms())
		}
	}
	_ = s.store.Warm(each) // requests report it
}

// Close closes all limiters.
func (s *Set) Close() {
	for _, l := range s.known {
		l.close()
	}
}

// ErrNoPolicy is matched by the error of a name that no policy has.
var ErrNoPolicy = errors.New("no policy is named")

// Policy returns the policy of a name.
func (s *Set) Policy(name string) (*Policy, error) {
	for _, p := range s.Policies {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w %q", ErrNoPolicy, name)
}

// Of returns the limits of a policy that are for a key, or all of them without one, and the values of the key as requests
// have them.
func (s *Set) Of(policy string, key []string) (limits []*Limit, values []string, err error) {
	p, err := s.Policy(policy)
	if err != nil {
		return nil, nil, err
	}
	if len(key) == 0 {
		return append(p.Limits(), slices.Concat(p.overridden...)...), nil, nil
	}
	if values, err = p.Key.Values(key); err != nil {
		return nil, nil, err
	}
	return p.limitsOf(values), values, nil
}

// builder makes a Set.
type builder struct {
	*Set

	config *config.Config
	before *Set
	faults []error
}

func (d *builder) policy(c config.Policy) *Policy {
	p := &Policy{Policy: c, keys: d.keys, requests: d.requests(c, "", c.Limits)}
	for _, o := range c.Overrides.All {
		p.overridden = append(p.overridden, d.requests(c, o.Value, o.Limits))
	}
	p.upload = d.bytes(c, upload, c.Upload)
	p.download = d.bytes(c, download, c.Download)
	return p
}

// requests returns the limits on requests of a policy, or of one of its overrides.
func (d *builder) requests(c config.Policy, override string, limits []config.Limit) []*Limit {
	all := make([]*Limit, len(limits))
	nth := make(map[spec.Kind]int)
	for i, l := range limits {
		id := identity{c.Name, requests, c.Key.String(), override, l.Kind, nth[l.Kind]}
		nth[l.Kind]++
		all[i] = d.limit(id, c.Key, l)
	}
	return all
}

// bytes returns a limit on bytes; nil: there is none. A body may wait in its queue forever: it has started, and is never
// rejected.
func (d *builder) bytes(c config.Policy, what string, l *spec.Limit) *Limit {
	if l == nil {
		return nil
	}
	terms := *l
	if terms.Kind != spec.Unlimited {
		terms.Queue = math.MaxInt
	}
	return d.limit(identity{policy: c.Name, what: what, key: c.Key.String(), kind: l.Kind}, c.Key, config.Limit{Limit: terms, At: c.At})
}

// connections adds a limit on connections, unless there is none of that name.
func (d *builder) connections(name string, key config.Key, l *spec.Limit) {
	if l != nil {
		id := identity{policy: name, what: connections, key: key.String(), kind: l.Kind}
		d.Connections = append(d.Connections, d.limit(id, key, config.Limit{Limit: *l, At: d.config.Where(name)}))
	}
}

// limit returns the limit with that identity. A new one is made even if the present one stays, so that bad terms are found
// before anything changes.
func (d *builder) limit(id identity, key config.Key, l config.Limit) *Limit {
	store := d.store
	if id.what == connections {
		store = nil // they are this process's own
	}
	m, err := newLimit(id, key, l.Limit, store, d.keys)
	if err != nil {
		d.faults = append(d.faults, d.config.Fault(l.At, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
		return m
	}
	if old, ok := d.before.known[id]; ok && old.store == store {
		d.updates = append(d.updates, func() { old.update(l.Limit) })
		m = old
	}
	d.known[id] = m
	return m
}
