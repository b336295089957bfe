package engine

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/clientip"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/spec"
)

// Plan decides which limits a request has to pass.
type Plan struct {
	Route func(r *accesslog.Record) []*Rule // returns the rules of a request, in their order
	Rules []*Rule                           // all of them
	Paths bool                              // Route depends on the path

	steps []Step // steps by the limiters' numbers, without flows; requests under one limit share them
	names []Name // names, by the limiters' numbers
	flows []Name // flows, by their numbers
}

// Name is what a limiter or a flow is of.
type Name struct {
	Policy string `json:"policy,omitempty"`
	Limit  string `json:"limit,omitempty"` // if its policy has several
	Key    string `json:"key"`
}

func (n Name) compare(m Name) int {
	return cmp.Or(strings.Compare(n.Policy, m.Policy), strings.Compare(n.Key, m.Key), strings.Compare(n.Limit, m.Limit))
}

// String returns the name without what could control a terminal: clients choose keys.
func (n Name) String() string {
	name := strings.Map(printable, strings.ToValidUTF8(strings.TrimSpace(n.Policy+" "+n.Key), "?"))
	if n.Limit != "" {
		name = strings.TrimSpace(name + " (" + n.Limit + ")")
	}
	return name
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return '?'
	}
	return r
}

// Rule is one limit, the same for all keys. [NewRule] returns it.
type Rule struct {
	Limit    spec.Limit
	Policy   string
	First    bool                             // whether it is the first one of its policy
	Several  bool                             // its policy has other limits too
	KeyName  string                           // key, as the user wrote it; "" if there is one limiter for all
	Key      func(r *accesslog.Record) []byte // reads the key named KeyName; nil if there is one limiter for all
	MaxWait  int64                            // nanoseconds, from the first limit of the policy on; 0 means no limit
	Failures bool                             // only requests that fail cost
	Cost     int                              // permits that a request takes
	Settles  bool                             // the response says what a request costs in the end, which is not simulated
	Shadow   bool                             // the policy neither rejects requests nor lets them wait
	FlowName string                           // flow, as the user wrote it; "" if there are no flows
	Flow     func(r *accesslog.Record) []byte // reads the flow named FlowName; nil if there are no flows
	Weights  map[string]int                   // weights of flows, by key; other flows have 1

	kind              kind           // kind of the limit as it is; other players scale it
	ids               map[string]int // the limiters' numbers, by key
	flows             map[string]*Flow
	Requests, Keyless int // requests that it was asked about, and those of them without a key

	NoAddresses int    // clients that are no addresses, under the key ip
	NoAddress   string // one of them
}

// NewRule returns a rule of a policy of its own, without a key.
func NewRule(l spec.Limit) (*Rule, error) {
	k, err := kindOf(l)
	return &Rule{Limit: l, First: true, Cost: 1, kind: k, ids: make(map[string]int)}, err
}

// Keys are the keys that a limit may have.
var Keys = map[string]func(r *accesslog.Record) []byte{
	"ip":      addressOf,
	"client":  func(r *accesslog.Record) []byte { return r.Client },
	"user":    func(r *accesslog.Record) []byte { return r.User },
	"host":    hostOf,
	"method":  func(r *accesslog.Record) []byte { return r.Method },
	"path":    pathOf,
	"agent":   func(r *accesslog.Record) []byte { return r.Agent },
	"referer": func(r *accesslog.Record) []byte { return r.Referer },
	"key":     func(r *accesslog.Record) []byte { return r.Key },
}

const bitsOfIPv6 = 64

// addressOf returns the key ip, as in the proxy: an IPv4 address, or the /64 of an IPv6 address. A client that is not an
// address is its own key.
func addressOf(r *accesslog.Record) []byte {
	a := clientip.Translate(accesslog.Address(string(r.Client)))
	switch {
	case !a.IsValid():
		return r.Client
	case a.Is4():
		return a.AppendTo(nil)
	}
	return netip.PrefixFrom(a, bitsOfIPv6).Masked().AppendTo(nil)
}

func hostOf(r *accesslog.Record) []byte {
	if r.Host == nil {
		return nil
	}
	host, ok := cli.HostOf(string(r.Host))
	if !ok {
		return []byte{} // one key for all values that are not hosts, as in the proxy
	}
	return []byte(host)
}

func pathOf(r *accesslog.Record) []byte {
	for i, c := range r.Path {
		if c == '?' || c == '#' {
			return r.Path[:i]
		}
	}
	return r.Path
}

// name returns the name of the limiter of a key.
func (r *Rule) name(key string) Name {
	n := Name{Policy: r.Policy, Key: key}
	if r.Several {
		n.Limit = r.Limit.String()
	}
	return n
}

// Of returns a plan of limits that all requests have to pass, per key; if key is "", all requests share them.
func Of(limits spec.Limits, key string) (*Plan, error) {
	p := &Plan{Rules: make([]*Rule, len(limits))}
	for i, l := range limits {
		r, err := NewRule(l)
		if err != nil {
			return nil, err
		}
		if key != "" {
			r.KeyName = key
			if r.Key, err = keyOf(key); err != nil {
				return nil, err
			}
		}
		r.First, r.Several = i == 0, len(limits) > 1
		p.Rules[i] = r
	}
	p.Route = func(*accesslog.Record) []*Rule { return p.Rules }
	return p, nil
}

// Under returns a plan that has the keys and flows of p, which has one rule, under other limits. See [Plan.Again].
func (p *Plan) Under(limits spec.Limits) (*Plan, error) {
	u, err := Of(limits, "")
	if err != nil {
		return nil, err
	}
	u.flows = p.flows
	for _, n := range p.names {
		for _, r := range u.Rules {
			u.steps = append(u.steps, Step{ID: len(u.names), Rule: r})
			u.names = append(u.names, r.name(n.Key))
		}
	}
	return u, nil
}

// Again returns a request that another plan has made as one of p, which is that plan Under other limits.
func (p *Plan) Again(q *Request) Request {
	again, s, n := *q, q.Steps[0], len(p.Rules)
	again.Steps = p.steps[s.ID*n : (s.ID+1)*n]
	if s.Flow != nil {
		again.Steps = slices.Clone(again.Steps)
		for i := range again.Steps {
			again.Steps[i].Flow = s.Flow
		}
	}
	return again
}

// ByFlow makes the requests of a plan wait by flow, which is a name of [Keys], where a limit has fair-share.
func (p *Plan) ByFlow(name string) (err error) {
	for _, r := range p.Rules {
		if r.Limit.Order == core.FairShare || len(p.Rules) == 1 {
			r.FlowName = name
			r.Flow, err = keyOf(name)
		}
	}
	return err
}

func keyOf(name string) (func(r *accesslog.Record) []byte, error) {
	f, ok := Keys[name]
	if !ok {
		return nil, fmt.Errorf("%q is not a key; use ip, client, user, host, method, path, agent, referer, or the key of --fields", name)
	}
	return f, nil
}

// Read yields the requests of a log's text in the order in which they came.
func (p *Plan) Read(l *accesslog.Log, text io.Reader, times *Times) iter.Seq[Request] {
	return InOrder(func(yield func(Request) bool) {
		for r := range l.Read(text) {
			if !yield(p.Request(r)) {
				return
			}
		}
	}, times)
}

// Request returns the request to play for a record.
func (p *Plan) Request(r *accesslog.Record) Request {
	q := Request{At: r.At, Took: r.Took, Status: r.Status, Coarse: r.Coarse}
	rules := p.Route(r)
	if len(rules) == 1 && rules[0].Flow == nil {
		id := p.limiter(rules[0], r)
		q.Steps = p.steps[id : id+1]
		return q
	}
	q.Steps = make([]Step, len(rules))
	for i, rule := range rules {
		q.Steps[i] = p.steps[p.limiter(rule, r)]
		if rule.Flow != nil {
			q.Steps[i].Flow = p.flow(rule, rule.Flow(r))
		}
	}
	return q
}

// limiter returns the number of the limiter of a rule for a request.
func (p *Plan) limiter(r *Rule, of *accesslog.Record) int {
	var key []byte
	if r.Key != nil {
		key = r.Key(of)
	}
	r.Requests++
	if r.Key != nil && len(key) == 0 {
		r.Keyless++
	}
	id, ok := r.ids[string(key)] // the compiler makes no string of it
	if !ok {
		id = len(p.names)
		r.ids[string(key)] = id
		p.names = append(p.names, r.name(string(key)))
		p.steps = append(p.steps, Step{ID: id, Rule: r})
		if r.KeyName == "ip" && len(key) > 0 && !isClient(string(key)) {
			r.NoAddresses++
			r.NoAddress = cmp.Or(r.NoAddress, string(key))
		}
	}
	return id
}

// isClient reports whether a key is one that addressOf returns for an address.
func isClient(key string) bool {
	_, err := netip.ParsePrefix(key)
	return err == nil || accesslog.Address(key).IsValid()
}

// flow returns the flow of a key under a rule.
func (p *Plan) flow(r *Rule, key []byte) *Flow {
	f, ok := r.flows[string(key)]
	if !ok {
		if r.flows == nil {
			r.flows = make(map[string]*Flow)
		}
		f = &Flow{fair.Flow{Key: string(key), Weight: r.Weights[string(key)]}, len(p.flows)}
		r.flows[f.Key] = f
		p.flows = append(p.flows, Name{Policy: r.Policy, Key: f.Key})
	}
	return f
}

// FlowName returns the name of a flow, by its number. Call it after the last request.
func (p *Plan) FlowName(id int) Name { return p.flows[id] }

// Keys returns the number of limiters. Call it after the last request.
func (p *Plan) Keys() int { return len(p.names) }

// Name returns the name of a limiter, by its number. Call it after the last request.
func (p *Plan) Name(id int) Name { return p.names[id] }
