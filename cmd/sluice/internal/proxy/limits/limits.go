// Package limits is the limits of a proxy: what a file of package config says of policies and of connections, as limiters.
// It knows requests by their keys, and nothing of how they are served.
//
// A [Set] is the limits of one file. What a [Policy] limits are [Subject]s: its requests, and the bytes of their bodies. A Subject
// has a limiter per key, and they follow the terms that the Subject has now. When the file changes, the next Set takes over the
// Subjects that stay, with what their limiters have granted.
package limits

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Set is the limits of one file.
type Set struct {
	Policies    []*Policy  // the global one first, if there is one
	Global      *Policy    // nil means none
	Connections []*Subject // each connection takes a permit of all

	store     *shared.Store // nil means that limits are this process's own
	subjects  map[identity]*Subject
	admission httplimit.Limiter // all of Connections; nil: none
	updates   []func()          // change the terms of the Subjects that stay
}

// New returns the limits of a file. Those of the Set before, which may be empty, are reused if they stay, and nothing has
// changed until Apply changes their terms.
func New(c *config.Config, store *shared.Store, keys *Keys, before *Set) (*Set, error) {
	s := &Set{store: store, subjects: make(map[identity]*Subject)}
	b := builder{Set: s, keys: keys, config: c, before: before}
	for _, p := range c.AllPolicies() {
		s.Policies = append(s.Policies, b.policy(p))
	}
	if c.Global != nil {
		s.Global = s.Policies[0]
	}
	b.connections("connections", nil, c.Connections)
	b.connections("connections-per-ip", config.Key{{Kind: config.KeyIP}}, c.ConnectionsPerIP)
	var all []httplimit.Limiter
	if err := errors.Join(b.faults...); err != nil {
		return nil, err
	}
	for _, l := range s.Connections {
		all = append(all, l.Limiter())
	}
	if len(all) > 0 {
		s.admission = core.Must(partition.Chain(all...))
	}
	return s, nil
}

// Apply changes the terms of the limits that stay. Requests that wait follow to the limits that there are then.
func (s *Set) Apply() {
	for _, update := range s.updates {
		update()
	}
	s.updates = nil
}

// Warm prepares the Redis server, if there is one, for each kind of limit.
func (s *Set) Warm() {
	if s.store != nil {
		_ = s.store.Warm() // requests report an error
	}
}

// Close closes all limiters.
func (s *Set) Close() {
	for _, subject := range s.subjects {
		subject.close()
	}
}

// Admit takes a permit of each limit on connections, or none. It returns the function that releases the permits, which is nil
// if nothing is limited, or the name of the limit that rejects the connection.
func (s *Set) Admit(c net.Conn) (release func(), rejectedBy string) {
	if s.admission == nil {
		return nil, ""
	}
	lease := s.admission.TryAcquire(&http.Request{RemoteAddr: c.RemoteAddr().String()}, 1)
	if lease.Acquired() {
		return lease.Release, ""
	}
	name, _ := core.LimiterName.From(lease)
	for _, l := range s.Connections {
		if l.Name == name {
			l.rejected.Add(1)
			return nil, name
		}
	}
	return nil, connections
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

// Policy is a policy of the file and what it limits.
type Policy struct {
	config.Policy

	requests *Subject // nil means that only bytes are limited
	upload   *Subject // nil means none
	download *Subject
	keys     *Keys
}

// Requests returns the limits on requests; nil: only bytes are limited.
func (p *Policy) Requests() *Subject { return p.requests }

// Bytes returns the limits on what requests transfer; nil: there is none.
func (p *Policy) Bytes() (upload, download *Subject) { return p.upload, p.download }

// subjects returns all that p limits.
func (p *Policy) subjects() []*Subject {
	return slices.DeleteFunc([]*Subject{p.requests, p.upload, p.download}, func(s *Subject) bool { return s == nil })
}

// Flows returns what tells on whose behalf a request waits; nil: all are one flow.
func (p *Policy) Flows() func(*http.Request) core.Flow {
	if len(p.Flow) == 0 {
		return nil
	}
	return func(r *http.Request) core.Flow {
		key := p.keys.read(r, p.Flow).joined
		return core.Flow{Key: key, Weight: p.Weights[key]}
	}
}

// builder makes a Set.
type builder struct {
	*Set

	keys   *Keys
	config *config.Config
	before *Set
	faults []error
}

func (b *builder) policy(c config.Policy) *Policy {
	p := &Policy{Policy: c, keys: b.keys}
	if len(c.Limits) > 0 || len(c.Overrides.All) > 0 {
		p.requests = b.subject(c.Name, requests, &terms{c.Key, c.Limits, c.Overrides})
	}
	p.upload = b.bytes(c, upload, c.Upload)
	p.download = b.bytes(c, download, c.Download)
	return p
}

// bytes returns a limit on bytes; nil: there is none. A body may wait in its queue forever: it has started, and is never
// rejected.
func (b *builder) bytes(c config.Policy, what string, limits []config.Limit) *Subject {
	if len(limits) == 0 {
		return nil
	}
	limits = slices.Clone(limits)
	for i := range limits {
		if limits[i].Kind != spec.Unlimited {
			limits[i].Queue = math.MaxInt
		}
	}
	return b.subject(c.Name, what, &terms{key: c.Key, limits: limits})
}

// connections adds limits on connections, unless there are none.
func (b *builder) connections(name string, key config.Key, limits []config.Limit) {
	if len(limits) > 0 {
		b.Connections = append(b.Connections, b.subject(name, connections, &terms{key: key, limits: limits}))
	}
}

// subject returns the Subject that stays, or a new one. A limiter for each of the limits is made even if it stays, so that bad
// terms are found before anything changes; if there are any, it returns nil.
func (b *builder) subject(name, what string, t *terms) *Subject {
	id := identity{name, what, t.key.String()}
	store := b.store
	if what == connections {
		store = nil // they are this process's own
	}
	s, faults := &Subject{identity: id, store: store}, len(b.faults)
	for _, l := range t.all() {
		s.terms.Store(&terms{limits: []config.Limit{l}})
		made, err := s.update(slot{}, nil)
		if err != nil {
			b.faults = append(b.faults, b.config.Fault(l.At, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
			continue
		}
		closeParts(made)
	}
	if len(b.faults) > faults {
		return nil
	}
	if before := b.before.subjects[id]; before != nil && before.store == store {
		s = before
		b.updates = append(b.updates, func() { s.apply(t) })
	} else {
		s = newSubject(id, b.keys, store, t)
	}
	b.subjects[id] = s
	return s
}
