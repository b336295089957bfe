package simulate

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// plan says which limits a request has to pass.
type plan struct {
	route func(r *record) []*rule // in their order; nil: none

	mu    sync.Mutex // several logs are read at once
	ids   map[string]int
	names []name // by id
}

// name is what a limiter is of, for the tables.
type name struct{ policy, key string }

// rule is one limit, the same for all keys.
type rule struct {
	policy   string
	key      func(r *record) []byte // nil: one for all
	limit    spec.Limit
	terms    *machine.Terms // of the limit as it is; other players scale it
	maxWait  int64
	failures bool
}

// keys are what --key takes.
var keys = map[string]func(r *record) []byte{
	"ip":      func(r *record) []byte { return r.client },
	"client":  func(r *record) []byte { return r.client },
	"user":    func(r *record) []byte { return r.user },
	"host":    func(r *record) []byte { return r.host },
	"method":  func(r *record) []byte { return r.method },
	"path":    pathOf,
	"agent":   func(r *record) []byte { return r.agent },
	"referer": func(r *record) []byte { return r.referer },
	"key":     func(r *record) []byte { return r.key },
}

func pathOf(r *record) []byte {
	for i, c := range r.path {
		if c == '?' || c == '#' {
			return r.path[:i]
		}
	}
	return r.path
}

func newPlan() *plan { return &plan{ids: make(map[string]int)} }

// single returns the plan of one limit for everything, by key.
func single(l spec.Limit, key string) (*plan, error) {
	r := &rule{limit: l}
	if key != "" {
		f, ok := keys[key]
		if !ok {
			return nil, cli.Usage("--key %q, want ip, user, host, method, path, agent, referer, or key of --fields", key)
		}
		r.key = f
	}
	var err error
	if r.terms, err = terms(l); err != nil {
		return nil, err
	}
	p := newPlan()
	rules := []*rule{r}
	p.route = func(*record) []*rule { return rules }
	return p, nil
}

// configured returns the plan of a proxy's configuration, routes included.
func configured(c *config.Config) (*plan, error) {
	byName := make(map[string][]*rule)
	for _, policy := range c.Policies {
		rules, err := rulesOf(&policy)
		if err != nil {
			return nil, err
		}
		byName[policy.Name] = rules
	}
	var global []*rule
	if c.Global != nil {
		var err error
		if global, err = rulesOf(c.Global); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	for _, route := range c.Routes {
		var rules []*rule
		if !route.Exempt {
			rules = append(rules, global...)
			for _, n := range route.Policies {
				rules = append(rules, byName[n]...)
			}
		}
		mux.Handle(route.Pattern, &destination{rules: rules})
	}
	p := newPlan()
	p.route = func(r *record) []*rule {
		u, err := url.ParseRequestURI(string(r.path))
		if err != nil {
			u = &url.URL{Path: string(pathOf(r))}
		}
		var h http.Handler
		h, r.pattern = mux.Handler(&http.Request{Method: string(r.method), Host: string(r.host), URL: u})
		if d, ok := h.(*destination); ok {
			return d.rules
		}
		return global // redirects too, and what no route fits
	}
	return p, nil
}

// destination is where a route leads, as far as limits go.
type destination struct {
	http.Handler

	rules []*rule
}

// rulesOf returns the limits of a policy; those on bytes say nothing of requests.
func rulesOf(p *config.Policy) ([]*rule, error) {
	rules := make([]*rule, 0, len(p.Limits))
	for _, l := range p.Limits {
		r := &rule{policy: p.Name, limit: l, maxWait: int64(p.MaxWait), failures: p.Failures, key: keyOf(p)}
		var err error
		if r.terms, err = terms(l); err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func keyOf(p *config.Policy) func(*record) []byte {
	switch p.Key {
	case config.KeyIP:
		return keys["ip"]
	case config.KeyHost:
		return keys["host"]
	case config.KeyPattern:
		return func(r *record) []byte { return []byte(r.pattern) }
	case config.KeyHeader:
		switch strings.ToLower(p.Header) {
		case "user-agent":
			return keys["agent"]
		case "referer":
			return keys["referer"]
		}
		return keys["key"] // --fields key= names the header's field
	}
	return nil
}

// request returns what has to be played of a record.
func (p *plan) request(r *record) request {
	rules := p.route(r)
	q := request{at: r.at, took: r.took, status: r.status}
	if len(rules) == 0 {
		return q
	}
	q.steps = make([]step, len(rules))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, rule := range rules {
		var key []byte
		if rule.key != nil {
			key = rule.key(r)
		}
		q.steps[i] = step{id: p.id(rule, i, key), rule: rule}
	}
	return q
}

// id numbers the limiters: one for each key of each limit.
func (p *plan) id(r *rule, i int, key []byte) int {
	k := make([]byte, 0, 96)
	k = append(k, r.policy...)
	k = append(k, 0, byte(i))
	k = append(k, key...)
	id, ok := p.ids[string(k)] // the compiler makes no string of it
	if !ok {
		id = len(p.names)
		p.ids[string(k)] = id
		p.names = append(p.names, name{r.policy, string(key)})
	}
	return id
}
