package config

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/spec"
)

// Policy is a limit with what belongs to it.
type Policy struct {
	Name      string
	At        Position
	Key       Key
	Limits    []spec.Limit // all of them, in this order; none: bytes alone are limited
	Places    []Position   // of Limits
	Overrides Overrides
	Cost      int         // permits of a request; at least 1
	Settle    string      // field of the answer or its trailer with the cost; "": none
	Upload    *spec.Limit // bytes; nil: none
	Download  *spec.Limit
	MaxWait   time.Duration
	Flow      Key            // by which requests wait in turn, where a limit has fair-share; none: all are one flow
	Weights   map[string]int // of flows, by JoinKey of their values; the others have 1
	Status    int            // 0: 429
	Failures  bool           // only failures count: what is not answered with 4xx is refunded
	FailOpen  bool
	Shadow    bool // it decides and rejects nobody

	at   map[string]Position // of its fields
	read int                 // limits, good ones and bad ones
}

func readPolicy(r *reader, name string, at Position, n *yaml.Node) Policy {
	p := Policy{Name: name, At: at, Cost: 1, at: make(map[string]Position)}
	what := "policy " + strconv.Quote(name)
	if name == "global" {
		what = name
	}
	var overrides, weights *yaml.Node
	fields := map[string]func(*yaml.Node){
		"key":       func(n *yaml.Node) { p.Key = readKey(r, "key", n) },
		"flow":      func(n *yaml.Node) { p.Flow = readKey(r, "flow", n) },
		"weights":   func(n *yaml.Node) { weights = n }, // which the flow is needed for
		"limit":     func(n *yaml.Node) { p.readLimits(r, []*yaml.Node{n}) },
		"limits":    func(n *yaml.Node) { p.readLimits(r, r.items(n)) },
		"overrides": func(n *yaml.Node) { overrides = n }, // which the key is needed for
		"cost":      func(n *yaml.Node) { p.readCost(r, n) },
		"settle":    func(n *yaml.Node) { p.readSettle(r, n) },
		"upload":    func(n *yaml.Node) { p.Upload = readBytes(r, n) },
		"download":  func(n *yaml.Node) { p.Download = readBytes(r, n) },
		"status":    func(n *yaml.Node) { p.readStatus(r, n) },
		"max-wait":  func(n *yaml.Node) { p.MaxWait = r.duration(n, "max-wait") },
		"count":     func(n *yaml.Node) { p.readCount(r, n) },
		"fail-open": func(n *yaml.Node) { p.FailOpen = r.bool(n, "fail-open") },
		"shadow":    func(n *yaml.Node) { p.Shadow = r.bool(n, "shadow") },
	}
	for key, read := range fields {
		fields[key] = func(n *yaml.Node) {
			p.at[key] = position(n)
			read(n)
		}
	}
	r.fields(n, what, fields)
	if overrides != nil {
		p.readOverrides(r, overrides)
	}
	if weights != nil {
		p.readWeights(r, weights)
	}
	p.checkFields(r, what)
	if !nameable(name) {
		r.fault(at, "%s: a name has ASCII letters, digits, '-', '_' and '.'", what)
	}
	return p
}

// checkFields finds fields that do not go together.
func (p *Policy) checkFields(r *reader, what string) {
	_, one := p.at["limit"]
	_, several := p.at["limits"]
	switch {
	case one && several:
		r.fault(p.At, "%s has limit and limits, want one of them", what)
	case p.read == 0 && p.Upload == nil && p.Download == nil:
		r.fault(p.At, "%s limits nothing, want limit, limits, upload or download", what)
	case p.read == 0:
		for _, key := range []string{"overrides", "cost", "settle", "shadow", "flow", "weights"} {
			if at, ok := p.at[key]; ok {
				r.fault(at, "%s is about limits on requests, and %s has none: add limit, such as limit: 100/s", key, what)
			}
		}
	}
}

func (p *Policy) readLimits(r *reader, items []*yaml.Node) {
	for _, item := range items {
		p.read++
		if l, ok := readLimit(r, item); ok {
			p.Limits, p.Places = append(p.Limits, l), append(p.Places, position(item))
		}
	}
}

func (p *Policy) readCost(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "cost")
	v, err := strconv.Atoi(text)
	if ok && (err != nil || v < 1 || v > math.MaxInt32) {
		r.fault(position(n), "cost is %q, want a number of permits from 1", text)
		return
	}
	p.Cost = max(v, 1)
}

func (p *Policy) readSettle(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "settle")
	if ok && !isToken(text) {
		r.fault(position(n), "settle is %q, want a field of the backend's answer, such as X-Cost", text)
	}
	p.Settle = http.CanonicalHeaderKey(text)
	if slices.Contains(ownFields, p.Settle) {
		r.fault(position(n), "settle is %s, which a client needs: want a field for the cost alone, such as X-Cost", p.Settle)
	}
}

// ownFields are fields without which an answer cannot be read.
var ownFields = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Grpc-Message", "Grpc-Status", "Keep-Alive", "Location", "Set-Cookie", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

func (p *Policy) readStatus(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "status")
	v, err := strconv.Atoi(text)
	if p.Status = v; ok && (err != nil || v < 400 || v > 599) {
		r.fault(position(n), "status is %q, want 400 to 599", text)
	}
}

func (p *Policy) readCount(r *reader, n *yaml.Node) {
	text, ok := r.text(n, "count")
	if p.Failures = text == "failures"; ok && !p.Failures && text != "all" {
		r.fault(position(n), "count is %q, want all or failures", text)
	}
}

func nameable(name string) bool {
	return name != "" && strings.Trim(name, letters+"-_.") == ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func readLimit(r *reader, n *yaml.Node) (spec.Limit, bool) {
	text, ok := r.text(n, "a limit")
	if !ok {
		return spec.Limit{}, false
	}
	l, err := spec.Parse(text)
	if err != nil {
		r.fault(position(n), "%s", strings.TrimPrefix(err.Error(), "spec: "))
	}
	return l, err == nil
}

func readBytes(r *reader, n *yaml.Node) *spec.Limit {
	l, ok := readLimit(r, n)
	if !ok {
		return nil
	}
	l.Bytes = l.Kind != spec.Unlimited // with or without a B: they come evenly
	return &l
}
