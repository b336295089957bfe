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
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// policy is a policy of the file and its limits.
type policy struct {
	config.Policy

	requests         []*limit
	upload, download *limit
}

// all returns the limits of p.
func (p *policy) all() []*limit {
	all := slices.Clone(p.requests)
	for _, l := range []*limit{p.upload, p.download} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
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
	before   map[identity]*limit
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
		p := &policy{Policy: c}
		nth := make(map[spec.Kind]int)
		for i, l := range c.Limits {
			id := identity{c.Name, requests, keyText(c), l.Kind, nth[l.Kind]}
			nth[l.Kind]++
			p.requests = append(p.requests, d.limit(id, l, c.Places[i]))
		}
		if c.Upload != nil {
			p.upload = d.limit(identity{c.Name, "upload", keyText(c), c.Upload.Kind, 0}, patient(*c.Upload), c.At)
		}
		if c.Download != nil {
			p.download = d.limit(identity{c.Name, "download", keyText(c), c.Download.Kind, 0}, patient(*c.Download), c.At)
		}
		d.policies = append(d.policies, p)
	}
	for _, door := range []struct {
		key, what string
		limit     *spec.Limit
	}{{"", "connections", d.config.Connections}, {"ip", "connections-per-ip", d.config.ConnectionsPerIP}} {
		if door.limit != nil {
			id := identity{door.what, connections, door.key, door.limit.Kind, 0}
			d.doors = append(d.doors, d.limit(id, *door.limit, d.config.Where(door.what)))
		}
	}
	return errors.Join(d.faults...)
}

// limit returns the limit with that identity. A new one is made even if the present one stays, so that bad terms are found
// before anything changes.
func (d *draft) limit(id identity, l spec.Limit, at config.Position) *limit {
	store := d.store
	if id.what == connections {
		store = nil // they are this process' own
	}
	m, err := newLimit(id, l, store, d.keys)
	if err != nil {
		d.faults = append(d.faults, d.config.Fault(at, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
		return m
	}
	if old, ok := d.before[id]; ok && old.store == store {
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

func keyText(p config.Policy) string {
	switch p.Key {
	case config.KeyIP:
		return "ip"
	case config.KeyHeader:
		return "header:" + p.Header
	case config.KeyHost:
		return "host"
	case config.KeyPattern:
		return "pattern"
	default:
		return ""
	}
}

// options returns o with the policies of d.
func (d *draft) options(o httplimit.Options) (httplimit.Options, error) {
	o.Headers, o.Problems, o.OnRejected = d.config.Headers, d.config.Problems, rejected
	for _, p := range d.policies {
		h, err := p.http()
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

func (p *policy) http() (httplimit.Policy, error) {
	h := httplimit.Policy{Name: p.Name, MaxWait: p.MaxWait, Status: p.Status, FailOpen: p.FailOpen}
	var err error
	if h.Limiter, err = p.limiter(); err != nil {
		return h, err
	}
	if p.Failures {
		h.Refund = refundsSuccess
	}
	if p.upload != nil {
		h.Upload = p.upload.asked
	}
	if p.download != nil {
		h.Download = p.download.asked
	}
	return h, nil
}

// refundsSuccess is the Refund of count: failures. It is not asked about a client that left before the end of the answer:
// otherwise guesses would be free for clients that hang up early.
func refundsSuccess(_ *http.Request, status int) bool { return status < 400 || status > 499 }

// limiter returns what decides about requests, or nil if only bytes are limited.
func (p *policy) limiter() (httplimit.Limiter, error) {
	switch len(p.requests) {
	case 0:
		return nil, nil
	case 1:
		return p.requests[0].asked, nil
	}
	chain := make([]httplimit.Limiter, len(p.requests))
	for i, l := range p.requests {
		chain[i] = l.asked
	}
	return partition.Chain(chain...)
}
