package rlslimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// Options are the options of a [Service].
type Options struct {
	// Config has the rules.
	Config Config

	// Store is what processes share the limits through. If it is nil, all limits are those of this process. A Store that panics may
	// end the process, because the descriptors of a request are asked about on several goroutines.
	Store redislimit.Store

	// Key is the prefix of the names of limits in the Store. "" means sluice/rls.
	Key string

	// Timeout is how long the Store may take for a request of up to 100 descriptors; beyond that, each has 28 µs more. Then
	// fail-open of the request's domain decides. 0 means 8 ms, so that a response takes 10.
	Timeout time.Duration

	// Headers adds the headers RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses. They describe the
	// descriptor that has the least left.
	Headers bool

	// Logger reports that the store does not decide, once in 10 s with the reason, and that it is reachable again after several
	// failures; requests for a domain that the Config does not have, once in 10 s; descriptors that no rule matches, once a minute per
	// domain; and requests that a rule in shadow mode would have rejected, once a second per rule. nil means that nothing is logged.
	Logger *slog.Logger
}

const (
	defaultKey     = "sluice/rls"
	defaultTimeout = 8 * time.Millisecond
	logEvery       = 10 * time.Second
)

// A request of many descriptors has more time.
const (
	manyDescriptors   = 100
	timePerDescriptor = 28 * time.Microsecond
)

// limiterTimeout is how long a limiter may wait for the Store at least: longer than a request, so that the load of a large request is
// not taken for a Store that is away.
const limiterTimeout = 50 * time.Millisecond

// timeout returns how long the Store may take for a request.
func (s *Service) timeout(descriptors int) time.Duration {
	return s.options.Timeout + time.Duration(max(descriptors-manyDescriptors, 0))*timePerDescriptor
}

// Service is a rate limit service: an envoy.service.ratelimit.v3.RateLimitServiceServer, to be registered with a
// grpc.Server. It is safe for concurrent use. Create it with [New]; the zero value responds Unavailable.
//
// A request is decided all or nothing: if one descriptor is over its limit, the request takes nothing from the
// others. Until that is decided, the hits that it returns are missing for other requests.
type Service struct {
	ratelimit.UnimplementedRateLimitServiceServer

	options Options

	mu    sync.Mutex            // one change at a time
	state atomic.Pointer[state] // nil before New and after Close

	unwatch         func() // ends the watch of the store; nil without a store
	unreachableLogs service.Seldom
	unreachable     atomic.Bool // the latest message about the store says so
	unknown         *unmatched  // descriptors for domains that the Config does not have
}

// unmatched counts descriptors that no rule matches.
type unmatched struct {
	descriptors atomic.Uint64
	logged      service.Seldom
}

// state is a Config and its rules. It does not change.
type state struct {
	domains map[string]*domain
	rules   []*rule // rules in the order of the files, each domain's overrides last
}

// domain is a domain in use.
type domain struct {
	*domainConfig

	live      map[*ruleConfig]*rule
	unmatched *unmatched
}

// New returns a service with the rules of the Config, or an error for an invalid Timeout. It does not call the store.
func New(o Options) (*Service, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("rlslimit: Options.Timeout = %v, want at least 0", o.Timeout)
	}
	o.Key, o.Timeout = cmp.Or(o.Key, defaultKey), cmp.Or(o.Timeout, defaultTimeout)
	s := &Service{options: o, unknown: new(unmatched)}
	s.state.Store(new(state))
	if o.Store != nil {
		if !reflect.ValueOf(o.Store).Comparable() { // limiters on equal stores share a circuit breaker
			s.options.Store = &struct{ redislimit.Store }{o.Store}
		}
		s.unwatch = redislimit.Watch(s.options.Store, s.logState)
	}
	if err := s.Update(o.Config); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Update applies another Config. Counts stay: a rule that has the same entries and a limit of the same
// kind keeps its limiters, which have its new limit from then on. In-flight requests are decided by the old limit. If a domain
// changes its keys, Update changes nothing and returns an error. After Close it returns an error, too.
func (s *Service) Update(c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Load()
	if before == nil {
		return errClosed
	}
	known, tallies := make(map[string]*rule), make(map[string]*tally)
	for _, r := range before.rules {
		rc := r.config.Load()
		known[r.domain+"\x00"+rc.id], tallies[r.domain+"\x00"+rc.at] = r, r.tally
	}
	next := &state{domains: make(map[string]*domain, len(c.domains))}
	for _, config := range c.domains {
		if was := before.domains[config.name]; was != nil && was.keys != config.keys {
			return yamlconf.NewFault(config.file, yamlconf.Place{Line: config.line, Column: 1}, "keys of domain %q was %d and is %d: that needs a restart", config.name, was.keys, config.keys)
		}
		d := &domain{domainConfig: config, live: make(map[*ruleConfig]*rule, len(config.rules)), unmatched: new(unmatched)}
		if was := before.domains[config.name]; was != nil {
			d.unmatched = was.unmatched
		}
		for _, rc := range append(slices.Clip(config.rules), overrides) {
			id := config.name + "\x00" + rc.id
			r := known[id]
			delete(known, id)
			var err error
			if r == nil {
				at := config.name + "\x00" + rc.at
				if tallies[at] == nil {
					tallies[at] = new(tally)
				}
				r, err = newRule(config.name, rc, tallies[at], config.keys, s.shared())
			} else if r.config.Load().limit != rc.limit {
				err = r.check(rc)
			}
			if err != nil {
				return yamlconf.NewFault(rc.file, yamlconf.Place{Line: rc.line, Column: 1}, "%v", err)
			}
			r.want(rc, config.keys)
			next.rules, d.live[rc] = append(next.rules, r), r
		}
		next.domains[config.name] = d
	}
	// From here on nothing can fail.
	s.state.Store(next)
	for _, d := range next.domains {
		for rc, r := range d.live {
			r.follow(rc)
		}
	}
	for _, r := range known { // those that the Config does not have
		_ = r.limiters.Close()
	}
	return nil
}

// overrides stands for the limits that come with requests.
var overrides = &ruleConfig{name: "override", at: "override", id: "override", byLimit: true}

// Close ends the service. Later calls return the status Unavailable. Prefetched permits are returned to the store. Close returns
// nil.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state.Swap(nil)
	if before == nil {
		return nil
	}
	for _, r := range before.rules {
		_ = r.limiters.Close()
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	return nil
}

var errClosed = errors.New("rlslimit: the service is closed")

// ShouldRateLimit decides a request. Its errors are gRPC statuses: InvalidArgument for a request without a domain or
// descriptors, or with a limit of an unknown unit; Unavailable after Close; and the status of ctx if it is done, in which case
// the request has taken nothing.
func (s *Service) ShouldRateLimit(ctx context.Context, req *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	switch {
	case req.GetDomain() == "":
		return nil, status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	case len(req.GetDescriptors()) == 0:
		return nil, status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	}
	st := s.state.Load()
	if st == nil {
		return nil, status.Error(codes.Unavailable, errClosed.Error())
	}
	room := [4]visit{}
	d := decision{service: s, domain: st.domains[req.GetDomain()], visits: slices.Grow(room[:0], len(req.GetDescriptors()))}
	if err := d.find(ctx, req); err != nil {
		return nil, err
	}
	if d.domain == nil {
		s.passesUnknown(req)
	} else if err := d.decide(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return d.response(), nil
}

// stored reports whether processes share the limits.
func (s *Service) stored() bool { return s.options.Store != nil }

// shared returns the options of limiters, whose Key is only a prefix.
func (s *Service) shared() redislimit.Options {
	return redislimit.Options{Store: s.options.Store, Key: s.options.Key, Timeout: max(s.options.Timeout, limiterTimeout)}
}

// StoreFailed logs, once in a while, that the store has not decided, or could not be prepared for decisions.
func (s *Service) StoreFailed(err error) {
	l := s.options.Logger
	if l == nil {
		return
	}
	if others, ok := s.unreachableLogs.Allow(core.Every(logEvery, 1)); ok {
		why := strings.TrimPrefix(err.Error(), redislimit.ErrStore.Error()+": ")
		message := "redis is unreachable; fail-open of each domain decides"
		if errors.Is(err, redislimit.ErrRefused) {
			message = "redis refused; fail-open of each domain decides"
		}
		if others > 0 {
			l = l.With(slog.Int("similar", others))
		}
		s.unreachable.Store(true)
		l.Warn(message, slog.String("error", why))
	}
}

// logState logs that the store has become unreachable, or reachable after a message that it was not.
func (s *Service) logState(up bool, err error) {
	if !up {
		s.StoreFailed(err)
	} else if s.unreachable.Swap(false) {
		s.options.Logger.Info("redis is reachable again; it decides")
	}
}

// longestName is how many bytes of a name are logged that a client may have chosen, and mostNames how many such names.
const (
	longestName = 100
	mostNames   = 10
)

// passesUnknown counts, and logs once in a while, that a request passes because no file has its domain.
func (s *Service) passesUnknown(req *ratelimit.RateLimitRequest) {
	s.unknown.descriptors.Add(uint64(len(req.GetDescriptors())))
	l := s.options.Logger
	if l == nil {
		return
	}
	if _, ok := s.unknown.logged.Allow(core.Every(logEvery, 1)); ok {
		name := req.GetDomain()
		l.Warn(fmt.Sprintf("no file has the domain %q; its requests pass", name[:min(len(name), longestName)]))
	}
}

// passesUnmatched counts, and logs once in a while, that a descriptor passes because no rule of its domain matches it. The message
// has its keys, and not its values, which may be secrets.
func (s *Service) passesUnmatched(d *domain, entries []*envoy.RateLimitDescriptor_Entry) {
	d.unmatched.descriptors.Add(1)
	l := s.options.Logger
	if l == nil {
		return
	}
	others, ok := d.unmatched.logged.Allow(core.Every(time.Minute, 1))
	if !ok {
		return
	}
	var keys []string
	for _, e := range entries[:min(len(entries), mostNames)] {
		keys = append(keys, strconv.Quote(e.GetKey()[:min(len(e.GetKey()), longestName)]))
	}
	if others > 0 {
		l = l.With(slog.Int("similar", others))
	}
	l.Warn(fmt.Sprintf("no rule of domain %q matches a descriptor with the keys %s; it passes", d.name, strings.Join(keys, ", ")))
}

// Unmatched returns how many descriptors no rule has matched, by domain. "" is for domains that no file has.
func (s *Service) Unmatched() map[string]uint64 {
	all := map[string]uint64{"": s.unknown.descriptors.Load()}
	if st := s.state.Load(); st != nil {
		for name, d := range st.domains {
			all[name] = d.unmatched.descriptors.Load()
		}
	}
	return all
}

// logShadowed logs, once a second per rule, that a request is over the limit and passes.
func (s *Service) logShadowed(v *visit) {
	l := s.options.Logger
	if l == nil {
		return
	}
	if _, ok := v.rule.logged.Allow(core.Every(time.Second, 1)); ok {
		l.Info("over the limit, and let through", slog.String("domain", v.rule.domain), slog.String("rule", v.config.name))
	}
}
