package simulate

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// configured returns the plan of a proxy's configuration, routes included.
func configured(c *config.Config) (*engine.Plan, error) {
	p := &engine.Plan{Paths: len(c.Routes) > 0}
	var global []*engine.Rule
	if c.Global != nil {
		var err error
		if global, err = addPolicy(p, c.Global); err != nil {
			return nil, err
		}
	}
	byName := make(map[string][]*engine.Rule)
	for _, policy := range c.Policies {
		rules, err := addPolicy(p, &policy)
		if err != nil {
			return nil, err
		}
		byName[policy.Name] = rules
	}
	mux := config.NewMux(c, func(r config.Route) []*engine.Rule {
		if r.Exempt {
			return nil
		}
		rules := slices.Clone(global)
		for _, n := range r.Policies {
			rules = append(rules, byName[n]...)
		}
		return rules
	})
	p.Route = func(r *accesslog.Record) []*engine.Rule {
		m := mux.Match(&http.Request{Method: string(r.Method), Host: string(r.Host), URL: target(r)})
		if m.Answer != nil {
			return global // the proxy answers by itself: with a redirect, 400, 404 or 405
		}
		r.Pattern = m.Pattern
		return m.Value
	}
	return p, nil
}

// addPolicy adds the limits of a policy. Those on bytes do not decide about requests.
func addPolicy(p *engine.Plan, c *config.Policy) ([]*engine.Rule, error) {
	rules := make([]*engine.Rule, 0, len(c.Limits))
	for i, l := range c.Limits {
		r, err := engine.NewRule(l)
		if err != nil {
			return nil, err
		}
		r.Policy, r.First, r.MaxWait, r.Failures = c.Name, i == 0, int64(c.MaxWait), c.Failures
		r.KeyName, r.Key = keyOf(c)
		rules = append(rules, r)
	}
	p.Rules = append(p.Rules, rules...)
	return rules, nil
}

func keyOf(p *config.Policy) (name string, key func(*accesslog.Record) []byte) {
	if len(p.Key) == 0 {
		return "", nil
	}
	parts := make([]func(*accesslog.Record) []byte, len(p.Key))
	for i, part := range p.Key {
		parts[i] = partOf(part)
	}
	if len(parts) == 1 {
		return p.Key.String(), parts[0]
	}
	return p.Key.String(), func(r *accesslog.Record) []byte {
		values := make([]config.Value, len(parts))
		for i, part := range parts {
			values[i] = config.Value{Text: string(part(r))}
		}
		return []byte(config.JoinKey(values))
	}
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
	}
	switch p.Header {
	case "User-Agent":
		return engine.Keys["agent"]
	case "Referer":
		return engine.Keys["referer"]
	}
	return engine.Keys["key"] // --fields key=PATH says where the header is
}

// target returns what a request asks for.
func target(r *accesslog.Record) *url.URL {
	u, err := url.ParseRequestURI(string(r.Path))
	if err != nil {
		u = &url.URL{Path: string(engine.Keys["path"](r))}
	}
	return u
}
