package simulate

import (
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// plan says which limits a request has to pass.
type plan struct {
	route func(r *record) []*rule // in their order; nil: none
	rules []*rule                 // all of them
	paths bool                    // route looks at the path

	mu    sync.Mutex // guards names, and the ids and counts of the rules: several logs are read at once
	names []name     // by the limiters' numbers
}

// name is what a limiter is of, for the tables.
type name struct{ policy, key string }

// rule is one limit, the same for all keys.
type rule struct {
	policy   string
	first    bool                   // of its policy
	keyName  string                 // as the user wrote it; "": one for all
	key      func(r *record) []byte // of keyName; nil: one for all
	limit    spec.Limit
	terms    *machine.Terms // of the limit as it is; other players scale it
	maxWait  int64          // from the first limit of the policy on; 0: any
	failures bool

	ids               map[string]int // the limiters' numbers, by key
	requests, keyless int
}

// keys are what --key takes.
var keys = map[string]func(r *record) []byte{
	"ip":      addressOf,
	"client":  func(r *record) []byte { return r.client },
	"user":    func(r *record) []byte { return r.user },
	"host":    hostOf,
	"method":  func(r *record) []byte { return r.method },
	"path":    pathOf,
	"agent":   func(r *record) []byte { return r.agent },
	"referer": func(r *record) []byte { return r.referer },
	"key":     func(r *record) []byte { return r.key },
}

var byIP = httplimit.ByIP(httplimit.IPOptions{})

// addressOf returns the client as the proxy tells clients apart: an IPv4 address, or the /64 of an IPv6 address. A
// client that is no address is a key of its own.
func addressOf(r *record) []byte {
	p := byIP(&http.Request{RemoteAddr: string(r.client)})
	switch {
	case !p.IsValid():
		return r.client
	case p.IsSingleIP():
		return p.Addr().AppendTo(nil)
	}
	return p.AppendTo(nil)
}

func hostOf(r *record) []byte {
	if r.host == nil {
		return nil
	}
	host, ok := route.Host(string(r.host))
	if !ok {
		return []byte{} // one key for all that are no hosts, as in the proxy
	}
	return []byte(host)
}

func pathOf(r *record) []byte {
	for i, c := range r.path {
		if c == '?' || c == '#' {
			return r.path[:i]
		}
	}
	return r.path
}

// single returns the plan of one limit for everything, by key.
func single(l spec.Limit, key string) (*plan, error) {
	r := &rule{first: true, limit: l, ids: make(map[string]int)}
	if key != "" {
		f, ok := keys[key]
		if !ok {
			return nil, cli.Usage("--key %q, want ip, client, user, host, method, path, agent, referer, or key of --fields", key)
		}
		r.keyName, r.key = key, f
	}
	var err error
	if r.terms, err = terms(l); err != nil {
		return nil, err
	}
	p := new(plan)
	p.rules = []*rule{r}
	p.route = func(*record) []*rule { return p.rules }
	return p, nil
}

// configured returns the plan of a proxy's configuration, routes included.
func configured(c *config.Config) (*plan, error) {
	p := &plan{paths: len(c.Routes) > 0}
	var global []*rule
	if c.Global != nil {
		var err error
		if global, err = p.addPolicy(c.Global); err != nil {
			return nil, err
		}
	}
	byName := make(map[string][]*rule)
	for _, policy := range c.Policies {
		rules, err := p.addPolicy(&policy)
		if err != nil {
			return nil, err
		}
		byName[policy.Name] = rules
	}
	mux := config.NewMux(c, func(r config.Route) []*rule {
		if r.Exempt {
			return nil
		}
		rules := slices.Clone(global)
		for _, n := range r.Policies {
			rules = append(rules, byName[n]...)
		}
		return rules
	})
	p.route = func(r *record) []*rule {
		u, err := url.ParseRequestURI(string(r.path))
		if err != nil {
			u = &url.URL{Path: string(pathOf(r))}
		}
		m := mux.Match(&http.Request{Method: string(r.method), Host: string(r.host), URL: u})
		if m.Answer != nil {
			return global // the proxy answers by itself: with a redirect, 400, 404 or 405
		}
		r.pattern = m.Pattern
		return m.Value
	}
	return p, nil
}

// addPolicy adds the limits of a policy. Those on bytes do not decide about requests.
func (p *plan) addPolicy(c *config.Policy) ([]*rule, error) {
	rules := make([]*rule, 0, len(c.Limits))
	for i, l := range c.Limits {
		r := &rule{
			policy: c.Name, first: i == 0, limit: l, maxWait: int64(c.MaxWait), failures: c.Failures, ids: make(map[string]int),
		}
		r.keyName, r.key = keyOf(c)
		var err error
		if r.terms, err = terms(l); err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	p.rules = append(p.rules, rules...)
	return rules, nil
}

func keyOf(p *config.Policy) (name string, key func(*record) []byte) {
	switch p.Key {
	case config.KeyIP:
		return "ip", keys["ip"]
	case config.KeyHost:
		return "host", keys["host"]
	case config.KeyPattern:
		return "pattern", func(r *record) []byte { return []byte(r.pattern) }
	case config.KeyHeader:
		name = "header:" + p.Header
		switch p.Header {
		case "User-Agent":
			return name, keys["agent"]
		case "Referer":
			return name, keys["referer"]
		}
		return name, keys["key"] // --fields key=PATH says where the header is
	}
	return "", nil
}

// request returns what is to be played of a record.
func (p *plan) request(r *record) request {
	q := request{at: r.at, took: r.took, status: r.status}
	rules := p.route(r)
	if len(rules) == 0 {
		return q
	}
	q.steps = make([]step, len(rules))
	for i, rule := range rules {
		var key []byte
		if rule.key != nil {
			key = rule.key(r)
		}
		q.steps[i] = step{id: p.limiter(rule, key), rule: rule}
	}
	return q
}

// limiter returns the number of the limiter that a rule has for a key.
func (p *plan) limiter(r *rule, key []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.requests++
	if r.key != nil && len(key) == 0 {
		r.keyless++
	}
	id, ok := r.ids[string(key)] // the compiler makes no string of it
	if !ok {
		id = len(p.names)
		r.ids[string(key)] = id
		p.names = append(p.names, name{r.policy, string(key)})
	}
	return id
}
