package simulate

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/core"
)

// policy is a policy of a proxy as rules.
type policy struct {
	rules      []*engine.Rule
	overrides  *config.Overrides
	overridden [][]*engine.Rule // rules of each override, in place of rules
	values     func(*accesslog.Record) []string
}

// of returns the rules for a request.
func (p *policy) of(r *accesslog.Record) []*engine.Rule {
	if len(p.overridden) == 0 {
		return p.rules
	}
	if i, ok := p.overrides.Find(p.values(r)); ok {
		return p.overridden[i]
	}
	return p.rules
}

// configured returns the plan of a proxy's configuration, with its routes.
func configured(c *config.Config) (*engine.Plan, error) {
	p := &engine.Plan{Paths: len(c.Routes) > 1 || c.Routes[0].Pattern != "/"}
	var global []*policy
	if c.Global != nil {
		made, err := addPolicy(p, c.Global)
		if err != nil {
			return nil, err
		}
		global = []*policy{made}
	}
	byName := make(map[string]*policy)
	for i := range c.Policies {
		made, err := addPolicy(p, &c.Policies[i])
		if err != nil {
			return nil, err
		}
		byName[c.Policies[i].Name] = made
	}
	routes := make([][]*policy, len(c.Routes))
	for i, r := range c.Routes {
		if r.Exempt {
			continue
		}
		routes[i] = slices.Clone(global)
		for _, n := range r.Policies {
			routes[i] = append(routes[i], byName[n])
		}
	}
	p.Route = func(r *accesslog.Record) (rules []*engine.Rule) {
		policies := global
		m := c.Mux.Match(&http.Request{Method: string(r.Method), Host: string(r.Host), URL: target(r)})
		if m.Answer == nil { // otherwise the proxy itself responds: with a redirect, 400, 404 or 405
			r.Pattern, policies = m.Pattern, routes[m.Route]
		}
		for _, policy := range policies {
			rules = append(rules, policy.of(r)...)
		}
		return rules
	}
	return p, nil
}

// addPolicy adds the limits of a policy, except limits on bytes, which do not affect requests.
func addPolicy(p *engine.Plan, c *config.Policy) (*policy, error) {
	made := &policy{overrides: &c.Overrides, values: valuesOf(c.Key)}
	var err error
	if made.rules, err = addRules(p, c, c.Limits); err != nil {
		return nil, err
	}
	for _, o := range c.Overrides.All {
		rules, err := addRules(p, c, o.Limits)
		if err != nil {
			return nil, err
		}
		made.overridden = append(made.overridden, rules)
	}
	return made, nil
}

func addRules(p *engine.Plan, c *config.Policy, limits []config.Limit) ([]*engine.Rule, error) {
	rules := make([]*engine.Rule, 0, len(limits))
	for i, l := range limits {
		r, err := engine.NewRule(l.Limit)
		if err != nil {
			return nil, err
		}
		r.Policy, r.First, r.Several = c.Name, i == 0, len(limits) > 1
		r.MaxWait, r.Failures = int64(c.MaxWait), c.Failures
		r.Cost, r.Settles, r.Shadow = c.Cost, c.Settle != "", c.Shadow
		r.KeyName, r.Key = c.Key.String(), keyOf(c.Key)
		if l.Order == core.FairShare {
			r.FlowName, r.Flow, r.Weights = c.Flow.String(), keyOf(c.Flow), c.Weights
		}
		rules = append(rules, r)
	}
	p.Rules = append(p.Rules, rules...)
	return rules, nil
}

// keyOf returns a function that returns the key of a request, or nil if there is one limiter for all.
func keyOf(k config.Key) func(*accesslog.Record) []byte {
	switch len(k) {
	case 0:
		return nil
	case 1:
		return partOf(k[0])
	}
	values := valuesOf(k)
	return func(r *accesslog.Record) []byte { return []byte(config.JoinKey(values(r))) }
}

// valuesOf returns a function that returns the values of the parts of a key, as in the proxy.
func valuesOf(k config.Key) func(*accesslog.Record) []string {
	parts := make([]func(*accesslog.Record) []byte, len(k))
	for i, part := range k {
		parts[i] = partOf(part)
	}
	return func(r *accesslog.Record) []string {
		values := make([]string, len(k))
		for i, part := range parts {
			switch text := string(part(r)); k[i].Kind {
			case config.KeyIP:
				values[i] = client(text)
			case config.KeyHeader, config.KeyPath, config.KeyCookie, config.KeyQuery:
				values[i] = config.Text(text)
			default:
				values[i] = text
			}
		}
		return values
	}
}

// client returns the value of the key ip for a client, which in a log may not be an address.
func client(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return config.Client(netip.PrefixFrom(a, a.BitLen()))
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return config.Client(p)
	}
	return text
}

func partOf(p config.KeyPart) func(*accesslog.Record) []byte {
	switch p.Kind {
	case config.KeyIP:
		return engine.Keys["ip"]
	case config.KeyHost:
		return engine.Keys["host"]
	case config.KeyPattern:
		return func(r *accesslog.Record) []byte { return []byte(r.Pattern) }
	case config.KeyPath:
		return func(r *accesslog.Record) []byte { return []byte(route.Segment(target(r), p.Segment)) }
	case config.KeyQuery:
		return func(r *accesslog.Record) []byte { return []byte(target(r).Query().Get(p.Name)) }
	}
	switch p.String() {
	case "header:User-Agent":
		return engine.Keys["agent"]
	case "header:Referer":
		return engine.Keys["referer"]
	}
	return engine.Keys["key"] // --fields key=PATH says where the header or the cookie is
}

// target returns the URL of a request.
func target(r *accesslog.Record) *url.URL {
	u, err := url.ParseRequestURI(string(r.Path))
	if err != nil {
		u = &url.URL{Path: string(engine.Keys["path"](r))}
	}
	return u
}
