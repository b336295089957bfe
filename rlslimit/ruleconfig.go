package rlslimit

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/spec"
)

// ruleConfig is a limit with the entries that lead to it.
type ruleConfig struct {
	path       []entry
	name       string // key1_value1.subkey1, as the reference has it
	id         string // the same, but different for different paths, with what decides which requests share a limiter
	limit      allowance
	unlimited  bool
	limitName  string
	replaces   []string
	shadow     bool
	quota      bool
	detailed   bool
	file       string
	line       int
	valueParts []int // the entries whose values have limiters of their own
}

// readLimit reads rate_limit or limit.
func (d *domainConfig) readLimit(r *reader, rule *ruleConfig, rateLimit, limit *yaml.Node) {
	if rateLimit != nil && limit != nil {
		r.fault(limit, "limit and rate_limit: want one of them")
	}
	switch {
	case rateLimit != nil:
		rule.readRateLimit(r, rateLimit)
	case limit != nil:
		text := r.text(limit, "limit")
		l, err := spec.Parse(text)
		switch {
		case err != nil:
			r.fault(limit, "limit: %s", strings.TrimPrefix(err.Error(), "spec: "))
		case l.Kind == spec.Concurrency:
			r.fault(limit, "limit: %q is for what runs at a time, and nothing says when a request ends: want a bucket, a fixed or a sliding window", text)
		case l.Queue > 0:
			r.fault(limit, "limit: %q has a queue, in which no request waits", text)
		}
		rule.limit, rule.unlimited = allowance{spec: l}, l.Kind == spec.Unlimited
	}
}

// readRateLimit reads the limit as the reference has it.
func (rc *ruleConfig) readRateLimit(r *reader, n *yaml.Node) {
	var unit string
	unitAt, multiplier := n, uint32(1)
	var multiplierAt *yaml.Node
	l := &rc.limit
	r.fields(n, "rate_limit", map[string]func(*yaml.Node){
		"unit":              func(n *yaml.Node) { unit, unitAt = r.text(n, "unit"), n },
		"unit_multiplier":   func(n *yaml.Node) { multiplier, multiplierAt = r.number(n, "unit_multiplier", 1), n },
		"requests_per_unit": func(n *yaml.Node) { l.Requests = r.number(n, "requests_per_unit", 0) },
		"unlimited":         func(n *yaml.Node) { rc.unlimited = r.boolean(n, "unlimited") },
		"name":              func(n *yaml.Node) { rc.limitName = r.text(n, "name") },
		"replaces":          func(n *yaml.Node) { rc.readReplaces(r, n) },
	})
	var known bool
	l.Unit, known = unitOf(unit)
	l.Multiplier = multiplier
	switch {
	case isNull(n):
	case rc.unlimited && unit != "":
		r.fault(unitAt, "should not specify rate limit unit when unlimited")
	case rc.unlimited:
		*l = allowance{}
	case !known:
		r.fault(unitAt, "invalid rate limit unit '%s', want second, minute, hour, day, week, month or year", unit)
	default:
		if err := l.check(); err != nil {
			r.fault(multiplierAt, "%v", err)
		}
	}
	for _, name := range rc.replaces {
		if name == rc.limitName && name != "" {
			r.fault(n, "replaces should not contain name of same descriptor")
		}
	}
}

func (rc *ruleConfig) readReplaces(r *reader, n *yaml.Node) {
	for _, item := range r.items(n, "replaces") {
		var name string
		r.fields(item, "replaces", map[string]func(*yaml.Node){"name": func(n *yaml.Node) { name = r.text(n, "name") }})
		if name == "" {
			r.fault(item, "should not have an empty replaces entry: want name: NAME")
		}
		rc.replaces = append(rc.replaces, name)
	}
}

// describe sets what follows from the path and the limit.
func (rc *ruleConfig) describe(path []entry) {
	rc.path, rc.name = path, nameOf(path)
	var id strings.Builder
	for i, e := range path {
		own := e.match != exact && !e.shared
		if own {
			rc.valueParts = append(rc.valueParts, i)
		}
		fmt.Fprintf(&id, "%s=%s", strconv.Quote(e.key), strconv.Quote(e.value))
		if own {
			id.WriteByte('+')
		}
		id.WriteByte('/')
	}
	rc.id = id.String() + rc.limit.kind().String()
}
