package config

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// Policy is a limit with what belongs to it.
type Policy struct {
	Name      string
	At        yamlconf.Place
	Key       Key
	Limits    []Limit // all of them, in this order; empty if only bytes are limited
	Overrides Overrides
	Cost      int     // permits of a request; at least 1
	Settle    string  // header or trailer of the response that has the cost; "": none
	Upload    []Limit // bytes; none: unlimited
	Download  []Limit
	MaxWait   time.Duration
	Flow      Key            // requests with the same values wait in one flow, if a limit has fair-share; none: all are one flow
	Weights   map[string]int // weights of flows, by JoinKey of their values; the others have 1
	Status    int            // 0: 429
	Failures  bool           // only failures count: a request whose response is not 4xx is refunded
	FailOpen  bool
	Shadow    bool // it decides, and never rejects

	what string                    // how messages name it: global, or policy "NAME"
	at   map[string]yamlconf.Place // places of its keys
}

// Limit is a limit and its place in the file.
type Limit struct {
	spec.Limit

	At yamlconf.Place
}

func readPolicy(name string, at yamlconf.Place, n yamlconf.Node) *Policy {
	p := &Policy{Name: name, At: at, Cost: 1, what: "policy " + strconv.Quote(name), at: make(map[string]yamlconf.Place)}
	if name == "global" {
		p.what = name
	}
	readOptions(n, p.what, p.at, []option{
		{"key", p.Key.read},
		{"flow", p.Flow.read},
		{"limit", limits(&p.Limits, ofRequests)},
		{"limits", limits(&p.Limits, ofRequests)},
		{"overrides", p.readOverrides},
		{"weights", p.readWeights},
		{"cost", number(&p.Cost, 1, math.MaxInt32)},
		{"settle", p.readSettle},
		{"upload", limits(&p.Upload, ofBytes)},
		{"download", limits(&p.Download, ofBytes)},
		{"max-wait", timeout(&p.MaxWait)},
		{"status", number(&p.Status, 400, 599)},
		{"count", choice(func(word string) { p.Failures = word == "failures" }, "all", "failures")},
		{"fail-open", boolean(&p.FailOpen)},
		{"shadow", boolean(&p.Shadow)},
	})
	if !slices.ContainsFunc([]string{"limit", "limits", "upload", "download"}, p.has) {
		n.FaultAt(p.At, "%s limits nothing, want limit, limits, upload or download", p.what)
	}
	if !nameable(name) {
		n.FaultAt(at, "%s: a name has ASCII letters, digits, '-', '_' and '.'", p.what)
	}
	return p
}

// has reports whether the file has a key of the policy.
func (p *Policy) has(key string) bool {
	_, ok := p.at[key]
	return ok
}

func (p *Policy) readSettle(n yamlconf.Node, key string) {
	text, ok := n.Text(key)
	p.Settle = http.CanonicalHeaderKey(text)
	switch {
	case ok && !isToken(text):
		n.Fault("settle is %q, want a header of the backend's response, such as X-Cost", text)
	case ConcernsConnection(p.Settle):
		n.Fault("settle is %q, which concerns one connection; use another header of the backend's response, such as X-Cost", text)
	}
}

func nameable(name string) bool {
	return name != "" && strings.Trim(name, letters+"-_.") == ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
