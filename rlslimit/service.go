package rlslimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/rlslimit/yamlconf"
)

// Options are the options of a [Service].
type Options struct {
	// Config has the rules.
	Config Config

	// Shared says where the limits are that processes share; without a Store all limits are those of this
	// process. Key is what their names in Redis begin with; "": sluice/rls. Timeout is how long the store may take for a
	// request, however many descriptors it has; 0: 8 ms, so that an answer takes 10. Unavailable, Local and TTL must be zero: the
	// domain's fail-open says what is answered while the store is unreachable.
	Shared redislimit.StoreOptions

	// Headers gives answers the fields RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of the descriptor that
	// has the least left, for the gateway to add to its own.
	Headers bool

	// Logger gets a line, once a second for each rule, if a request is over the limit of a rule in shadow mode and is
	// let through. nil: there are no such lines.
	Logger *slog.Logger
}

const (
	defaultKey    = "sluice/rls"
	defaultBudget = 8 * time.Millisecond
)

func (o Options) validate() error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, fmt.Errorf("rlslimit: Options.Shared.%s = %v, want %s", field, value, want))
	}
	s := o.Shared
	if s.Timeout < 0 {
		fault("Timeout", s.Timeout, "at least 0")
	}
	if s.Unavailable != 0 || s.Local != nil {
		fault("Unavailable", s.Unavailable, "deny and no Local: fail-open of each domain decides")
	}
	if s.TTL != 0 {
		fault("TTL", s.TTL, "0: no rule has a concurrency limit")
	}
	return errors.Join(faults...)
}

// Service is a rate limit service: an envoy.service.ratelimit.v3.RateLimitServiceServer, to be registered with a
// grpc.Server. It is safe for concurrent use. Make it with [New]; the zero value answers Unavailable.
//
// A request is decided all or nothing: if one descriptor is over its limit, the request takes nothing from the
// others. While it is decided another request may find what it has taken, and gives back, missing.
type Service struct {
	ratelimit.UnimplementedRateLimitServiceServer

	options Options

	mu    sync.Mutex // one change at a time
	state atomic.Pointer[state]
}

// state is a Config and the rules that it has. It does not change.
type state struct {
	domains map[string]*domain
	rules   []*rule // in the order of the files, each domain's overrides last
}

// domain is a domain in use.
type domain struct {
	*domainConfig

	live     map[*ruleConfig]*rule
	override *rule // for the limits that requests bring
}

// New returns a service that answers by the Config, or an error with everything that is wrong with the
// options. It does not ask the store.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Service{options: o}
	if o.Shared.Store != nil {
		if o.Shared.Key == "" {
			s.options.Shared.Key = defaultKey
		}
		if o.Shared.Timeout == 0 {
			s.options.Shared.Timeout = defaultBudget
		}
		s.options.Shared.Store = &breaker{Store: o.Shared.Store, budget: s.options.Shared.Timeout, base: time.Now()}
	}
	if err := s.Update(o.Config); err != nil {
		return nil, err
	}
	return s, nil
}

// Update puts another Config in force. What is counted stays counted: a rule that has the same entries and a
// limit of the same kind keeps its limiters, which have its new limit from then on. Requests under way are decided by
// the old one. If keys of a domain has changed, nothing changes and Update returns an error; after Close it returns one,
// too.
func (s *Service) Update(c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Load()
	if before == nil {
		before = new(state)
	} else if before.domains == nil {
		return errClosed
	}
	known := make(map[string]*rule)
	for _, r := range before.rules {
		known[r.domain+"\x00"+r.terms.Load().id] = r
	}
	next := &state{domains: make(map[string]*domain, len(c.domains))}
	var updates []func()
	for _, config := range c.domains {
		if was := before.domains[config.name]; was != nil && was.keys != config.keys {
			return yamlconf.NewFault(config.file, config.line, 1, "keys of domain %q was %d and is %d: that needs a restart", config.name, was.keys, config.keys)
		}
		d := &domain{domainConfig: config, live: make(map[*ruleConfig]*rule, len(config.rules))}
		for _, rc := range append(slices.Clip(config.rules), overrides) {
			r := known[config.name+"\x00"+rc.id]
			if r == nil {
				var err error
				if r, err = newRule(config.name, rc, config.keys, s.options.Shared, rc == overrides); err != nil {
					return err
				}
				if err := r.check(); err != nil {
					return yamlconf.NewFault(rc.file, rc.line, 1, "%v", err)
				}
			} else if rc != overrides {
				updates = append(updates, func() { r.update(newTerms(rc, false)) })
			}
			next.rules = append(next.rules, r)
			if d.live[rc] = r; rc == overrides {
				d.override = r
			}
		}
		next.domains[config.name] = d
	}
	// From here on nothing can fail.
	s.state.Store(next)
	for _, update := range updates {
		update()
	}
	for _, r := range before.rules {
		if !slices.Contains(next.rules, r) {
			r.close()
		}
	}
	return nil
}

// overrides stands for the limits that requests bring.
var overrides = &ruleConfig{name: "override", id: "override", limit: allowance{Unit: second, Multiplier: 1}}

// check makes a limiter, to find out now whether there can be one.
func (r *rule) check() error {
	t := r.terms.Load()
	if t.unlimited || t.byLimit || t.limit.bans() {
		return nil
	}
	f, err := r.follow("")
	if err != nil {
		return err
	}
	return f.Close()
}

// Close ends the service. Calls after it are answered Unavailable. What was prefetched from the store is given back. It
// returns nil.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Swap(new(state))
	if before == nil {
		return nil
	}
	for _, r := range before.rules {
		r.close()
	}
	return nil
}

var errClosed = errors.New("rlslimit: the service is closed")

// ShouldRateLimit answers a request. Its errors are those of gRPC: InvalidArgument for a request without a domain
// or descriptors, or with a limit of an unknown unit, and Unavailable after Close.
func (s *Service) ShouldRateLimit(ctx context.Context, req *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	switch {
	case req.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(req.GetDescriptors()) == 0:
		return nil, status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	}
	st := s.state.Load()
	if st == nil || st.domains == nil {
		return nil, status.Error(codes.Unavailable, errClosed.Error())
	}
	room := [4]visit{}
	d := decision{service: s, domain: st.domains[req.GetDomain()], visits: room[:0]}
	if err := d.find(req); err != nil {
		return nil, err
	}
	if d.domain != nil {
		d.decide() //nolint:contextcheck // a call of the store is for many requests
	}
	return d.answer(), nil
}

// find finds the rule of each descriptor.
func (d *decision) find(req *ratelimit.RateLimitRequest) error {
	for _, descriptor := range req.GetDescriptors() {
		v := visit{hits: hitsOf(req, descriptor), back: descriptor.GetIsNegativeHits()}
		if l := descriptor.GetLimit(); l != nil {
			unit := timeUnit(l.GetUnit())
			if _, known := ratelimit.RateLimitResponse_RateLimit_Unit_name[int32(unit)]; !known || unit == 0 {
				return status.Errorf(codes.InvalidArgument, "invalid rate limit unit '%s'", l.GetUnit())
			}
			limit := allowance{Requests: l.GetRequestsPerUnit(), Unit: unit, Multiplier: max(l.GetUnitMultiplier().GetValue(), 1)}
			if err := limit.check(); err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
			if d.domain != nil {
				v.overridden(d.domain, descriptor, limit)
			}
		} else if d.domain != nil {
			v.match(d.domain, descriptor.GetEntries())
		}
		d.visits = append(d.visits, v)
	}
	d.replace()
	return nil
}

// hitsOf returns the hits of a descriptor: its own, or those of the request.
func hitsOf(req *ratelimit.RateLimitRequest, descriptor *envoy.RateLimitDescriptor) uint64 {
	if own := descriptor.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return uint64(max(req.GetHitsAddend(), 1))
}

// replace leaves out the limits that others replace.
func (d *decision) replace() {
	for _, v := range d.visits {
		if v.terms == nil {
			continue
		}
		for _, name := range v.terms.replaces {
			for i := range d.visits {
				if o := &d.visits[i]; o.terms != nil && !o.terms.unlimited && o.terms.limitName == name && name != "" {
					o.left = true
				}
			}
		}
	}
	for i := range d.visits {
		if d.visits[i].left {
			d.visits[i] = visit{hits: d.visits[i].hits}
		}
	}
}
