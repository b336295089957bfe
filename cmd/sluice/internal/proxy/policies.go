package proxy

import (
	"errors"
	"fmt"
	"math"
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

// policy is a policy of the file and its limits.
type policy struct {
	config.Policy

	requests         []*limit
	overrides        [][]*limit // of each override, in place of requests
	upload, download *limit
	frequent         *frequent // by key
}

// all returns the limits of p, but for those of overrides.
func (p *policy) all() []*limit { return p.withBytes(p.requests) }

// limitsOf returns the limits of p for a key.
func (p *policy) limitsOf(key []config.Value) []*limit {
	if i, ok := p.Overrides.Find(key); ok {
		return p.withBytes(p.overrides[i])
	}
	return p.all()
}

func (p *policy) withBytes(requests []*limit) []*limit {
	all := slices.Clone(requests)
	for _, l := range []*limit{p.upload, p.download} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// frequent returns the rejections by key of a policy, which stay as long as its key does.
func (s *state) frequent(c config.Policy) *frequent {
	for _, p := range s.policies {
		if p.Name == c.Name && p.Key.String() == c.Key.String() {
			return p.frequent
		}
	}
	return new(frequent)
}

// overrideCounts returns the counts of all overrides of p together. The file may have secrets as their keys, so nothing
// tells of one alone. It reports false if there are none.
func (p *policy) overrideCounts() (sum partition.Counts, ok bool) {
	for _, l := range slices.Concat(p.overrides...) {
		if l.count == nil { // unlimited
			continue
		}
		c := l.count()
		sum.Live += c.Live
		sum.Created += c.Created
		sum.Dropped += c.Dropped
		sum.Overflowed += c.Overflowed
	}
	return sum, len(p.overrides) > 0
}

// label is what metrics call a limit of p.
func (p *policy) label(l *limit) string {
	switch {
	case l.id.what != requests:
		return p.Name + "/" + l.id.what
	case len(p.requests) > 1:
		return fmt.Sprintf("%s/%s-%d", p.Name, l.id.kind, l.id.nth+1)
	}
	return p.Name
}

// draft is a configuration of which limits are made, before it is applied.
type draft struct {
	config   *config.Config
	store    *shared.Store // nil: limits are this process' own
	keys     *keys
	say      func(format string, args ...any)
	before   *state
	rejected func(*http.Request, *httplimit.Rejection)
	limits   map[identity]*limit
	policies []*policy // the global one first
	doors    []*limit  // of connections
	updates  []func()  // put new terms into the limits that stay
	faults   []error
}

// make makes the limits. Limits of the present configuration that stay are reused; updates will change them.
func (d *draft) make() error {
	d.limits = make(map[identity]*limit)
	declared := d.config.Policies
	if d.config.Global != nil {
		declared = append([]config.Policy{*d.config.Global}, declared...)
	}
	for _, c := range declared {
		p := &policy{Policy: c, frequent: d.before.frequent(c), requests: d.requests(c, "", c.Limits, c.Places)}
		for _, o := range c.Overrides.All {
			p.overrides = append(p.overrides, d.requests(c, o.Name, o.Limits, o.Places))
		}
		if c.Upload != nil {
			id := identity{policy: c.Name, what: "upload", key: c.Key.String(), kind: c.Upload.Kind}
			p.upload = d.limit(id, c.Key, patient(*c.Upload), c.At)
		}
		if c.Download != nil {
			id := identity{policy: c.Name, what: "download", key: c.Key.String(), kind: c.Download.Kind}
			p.download = d.limit(id, c.Key, patient(*c.Download), c.At)
		}
		d.policies = append(d.policies, p)
	}
	for _, door := range []struct {
		key   config.Key
		what  string
		limit *spec.Limit
	}{{nil, "connections", d.config.Connections}, {config.Key{{Kind: config.KeyIP}}, "connections-per-ip", d.config.ConnectionsPerIP}} {
		if door.limit != nil {
			id := identity{policy: door.what, what: connections, key: door.key.String(), kind: door.limit.Kind}
			d.doors = append(d.doors, d.limit(id, door.key, *door.limit, d.config.Where(door.what)))
		}
	}
	return errors.Join(d.faults...)
}

// requests returns the limits on requests of a policy, or of one of its overrides.
func (d *draft) requests(c config.Policy, override string, limits []spec.Limit, places []config.Position) []*limit {
	all := make([]*limit, len(limits))
	nth := make(map[spec.Kind]int)
	for i, l := range limits {
		id := identity{c.Name, requests, c.Key.String(), override, l.Kind, nth[l.Kind]}
		nth[l.Kind]++
		all[i] = d.limit(id, c.Key, l, places[i])
	}
	return all
}

// limit returns the limit with that identity. A new one is made even if the present one stays, so that bad terms are found
// before anything changes.
func (d *draft) limit(id identity, key config.Key, l spec.Limit, at config.Position) *limit {
	store := d.store
	if id.what == connections {
		store = nil // they are this process' own
	}
	m, err := newLimit(id, key, l, store, d.keys)
	if err != nil {
		d.faults = append(d.faults, d.config.Fault(at, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
		return m
	}
	if old, ok := d.before.known[id]; ok && old.store == store {
		d.updates = append(d.updates, func() { old.update(l) })
		m = old
	}
	d.limits[id] = m
	return m
}

// patient returns a limit on bytes in whose queue a body may wait for ever: it has begun, and is never rejected.
func patient(l spec.Limit) spec.Limit {
	if l.Kind != spec.Unlimited {
		l.Queue = math.MaxInt
	}
	return l
}

// options returns o with the policies of d.
func (d *draft) options(o httplimit.Options) (httplimit.Options, error) {
	o.Headers, o.Problems, o.OnRejected = d.config.Headers, d.config.Problems, d.reject
	for _, p := range d.policies {
		h, err := d.http(p)
		if err != nil {
			return o, d.config.Fault(p.At, "%v", err)
		}
		if d.config.Global != nil && p.Name == d.config.Global.Name {
			o.Global = &h
		} else {
			o.Policies = append(o.Policies, h)
		}
	}
	return o, nil
}

// reject answers a request that a policy has rejected.
func (d *draft) reject(w http.ResponseWriter, r *http.Request, no *httplimit.Rejection) {
	d.rejected(r, no)
	rejected(w, r, no)
}

func (d *draft) http(p *policy) (httplimit.Policy, error) {
	h := httplimit.Policy{Name: p.Name, MaxWait: p.MaxWait, Status: p.Status, FailOpen: p.FailOpen, Shadow: p.Shadow}
	var err error
	if h.Limiter, err = d.limiter(p); err != nil {
		return h, err
	}
	if len(p.Flow) > 0 {
		h.Flow = d.flow(p)
	}
	if p.Cost != 1 {
		h.Permits = func(*http.Request) int { return p.Cost }
	}
	if p.Failures {
		h.Refund = refundsSuccess
	}
	if p.Settle != "" {
		h.Settle = (&settler{policy: p.Name, field: p.Settle, cost: p.Cost, say: d.say}).settle
	}
	if p.upload != nil {
		h.Upload = p.upload.asked
	}
	if p.download != nil {
		h.Download = p.download.asked
	}
	return h, nil
}

// flow returns on whose behalf a request waits.
func (d *draft) flow(p *policy) func(*http.Request) core.Flow {
	values := d.keys.values(p.Flow)
	return func(r *http.Request) core.Flow {
		key := config.JoinKey(values(r))
		return core.Flow{Key: key, Weight: p.Weights[key]}
	}
}

// refundsSuccess is the Refund of count: failures. It is not asked about a client that left before the end of the answer:
// otherwise guesses would be free for clients that hang up early.
func refundsSuccess(_ *http.Request, status int) bool { return status < 400 || status > 499 }

// limiter returns what decides about requests, or nil if only bytes are limited.
func (d *draft) limiter(p *policy) (httplimit.Limiter, error) {
	others, err := chain(p.requests)
	if len(p.overrides) == 0 || err != nil {
		return others, err
	}
	o := &overridden{values: d.keys.values(p.Key), overrides: &p.Overrides, others: others}
	for _, limits := range p.overrides {
		own, err := chain(limits)
		if err != nil {
			return nil, err
		}
		o.own = append(o.own, own)
	}
	return o, nil
}

// chain returns one limiter for several limits; nil: there are none.
func chain(limits []*limit) (httplimit.Limiter, error) {
	switch len(limits) {
	case 0:
		return nil, nil
	case 1:
		return limits[0].asked, nil
	}
	all := make([]httplimit.Limiter, len(limits))
	for i, l := range limits {
		all[i] = l.asked
	}
	return partition.Chain(all...)
}
