package config

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/rlslimit/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// Policy is a limit with what belongs to it.
type Policy struct {
	Name      string
	At        yamlconf.Place
	Key       Key
	Limits    []spec.Limit     // all of them, in this order; empty if only bytes are limited
	Places    []yamlconf.Place // of Limits
	Overrides Overrides
	Cost      int         // permits of a request; at least 1
	Settle    string      // header or trailer of the response that has the cost; "": none
	Upload    *spec.Limit // bytes; nil: none
	Download  *spec.Limit
	MaxWait   time.Duration
	Flow      Key            // requests with the same values wait in one flow, if a limit has fair-share; none: all are one flow
	Weights   map[string]int // of flows, by JoinKey of their values; the others have 1
	Status    int            // 0: 429
	Failures  bool           // only failures count: a request whose response is not 4xx is refunded
	FailOpen  bool
	Shadow    bool // it decides, and never rejects

	at   map[string]yamlconf.Place // of its keys
	read int                       // limits, good ones and bad ones
}

func readPolicy(name string, at yamlconf.Place, n yamlconf.Node) Policy {
	p := Policy{Name: name, At: at, Cost: 1, at: make(map[string]yamlconf.Place)}
	what := "policy " + strconv.Quote(name)
	if name == "global" {
		what = name
	}
	var overrides, weights yamlconf.Node
	for _, pair := range n.Pairs(what) {
		n := pair.Value
		p.at[pair.Key] = n.Place()
		switch pair.Key {
		case "key":
			p.Key = readKey("key", n)
		case "flow":
			p.Flow = readKey("flow", n)
		case "weights":
			weights = n // reading them needs the flow
		case "overrides":
			overrides = n // reading them needs the key
		case "limit":
			p.readLimits([]yamlconf.Node{n})
		case "limits":
			p.readLimits(n.Items())
		case "cost":
			p.Cost = number(n, "cost", 1, math.MaxInt32)
		case "settle":
			p.readSettle(n)
		case "upload":
			p.Upload = readBytes(n)
		case "download":
			p.Download = readBytes(n)
		case "status":
			p.Status = number(n, "status", 400, 599)
		case "max-wait":
			p.MaxWait, _ = readDuration(n, "max-wait")
		case "count":
			p.Failures = choice(n, "count", "all", "failures") == "failures"
		case "fail-open":
			p.FailOpen = boolean(n, "fail-open")
		case "shadow":
			p.Shadow = boolean(n, "shadow")
		default:
			pair.Unknown(what)
		}
	}
	if p.has("overrides") {
		p.readOverrides(overrides)
	}
	if p.has("weights") {
		p.readWeights(weights)
	}
	p.checkKeys(n, what)
	if !nameable(name) {
		n.FaultAt(at, "%s: a name has ASCII letters, digits, '-', '_' and '.'", what)
	}
	return p
}

// has reports whether the file has a key of the policy.
func (p *Policy) has(key string) bool {
	_, ok := p.at[key]
	return ok
}

// checkKeys finds keys that do not go together.
func (p *Policy) checkKeys(n yamlconf.Node, what string) {
	switch {
	case p.has("limit") && p.has("limits"):
		n.FaultAt(p.At, "%s has limit and limits, want one of them", what)
	case p.read == 0 && p.Upload == nil && p.Download == nil:
		n.FaultAt(p.At, "%s limits nothing, want limit, limits, upload or download", what)
	case p.read == 0:
		for _, key := range []string{"overrides", "cost", "settle", "shadow", "flow", "weights"} {
			if p.has(key) {
				n.FaultAt(p.at[key], "%s is about limits on requests, and %s has none: add limit, such as limit: 100/s", key, what)
			}
		}
	}
}

func (p *Policy) readLimits(items []yamlconf.Node) {
	for _, item := range items {
		p.read++
		if l, ok := readLimit(item); ok {
			p.Limits, p.Places = append(p.Limits, l), append(p.Places, item.Place())
		}
	}
}

func (p *Policy) readSettle(n yamlconf.Node) {
	text, ok := n.Text("settle")
	if ok && !isToken(text) {
		n.Fault("settle is %q, want a header of the backend's response, such as X-Cost", text)
	}
	p.Settle = http.CanonicalHeaderKey(text)
	if slices.Contains(neededHeaders, p.Settle) {
		n.Fault("settle is %s, which a client needs: want a header for the cost alone, such as X-Cost", p.Settle)
	}
}

// neededHeaders are headers without which a client cannot read a response.
var neededHeaders = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Grpc-Message", "Grpc-Status", "Keep-Alive", "Location", "Set-Cookie", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

func nameable(name string) bool {
	return name != "" && strings.Trim(name, letters+"-_.") == ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func readBytes(n yamlconf.Node) *spec.Limit {
	l, ok := readLimit(n)
	if !ok {
		return nil
	}
	l.Bytes = l.Kind != spec.Unlimited // with or without a B: they come evenly
	return &l
}
