package rlslimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/spec"
)

// ruleConfig is a limit with the entries that lead to it.
type ruleConfig struct {
	path       []entry
	name       string // key1_value1.subkey1, as envoyproxy/ratelimit has it
	id         string // the same, but unique to the path, with the marks of entries whose values have limiters of their own
	limit      allowance
	byLimit    bool                                   // an override's: the limit is in the key
	current    *ratelimit.RateLimitResponse_RateLimit // the limit as responses have it; nil if it is unlimited or in the key
	unlimited  bool
	limitName  string
	replaces   []string
	shadow     bool
	quota      bool
	detailed   bool
	metadata   *structpb.Struct
	file       string
	line       int
	valueParts []int // the entries whose values have limiters of their own
}

// readSpec reads a limit as package spec has it.
func (rc *ruleConfig) readSpec(n yamlconf.Node) {
	limit := text(n, "limit")
	l, err := spec.Parse(limit)
	switch {
	case err != nil:
		n.Fault("limit: %s", strings.TrimPrefix(err.Error(), "spec: "))
	case l.Kind == spec.Concurrency:
		n.Fault("limit: %q is for what runs at a time, and nothing says when a request ends: want a bucket, a fixed or a sliding window", limit)
	case l.Bytes:
		n.Fault("limit: %q is an amount of bytes, but a limit counts hits: write %d", limit, l.Permits)
	case l.Queue > 0:
		n.Fault("limit: %q has a queue, in which no request waits", limit)
	}
	rc.limit, rc.unlimited = ofSpec(l), l.Kind == spec.Unlimited
	if l.Kind == spec.Blocked || l.Kind == spec.Paused { // no request waits here
		rc.limit, _ = units{0, second, 1}.allowance() // a ban, like requests_per_unit: 0
	}
}

// readRateLimit reads a limit as envoyproxy/ratelimit has it.
func (rc *ruleConfig) readRateLimit(r *reader, n yamlconf.Node) {
	f := r.fields(n, "rate_limit", "unit", "unit_multiplier", "requests_per_unit", "unlimited", "name", "replaces")
	unit := text(f["unit"], "unit")
	rc.unlimited = boolean(f["unlimited"], "unlimited")
	rc.limitName = text(f["name"], "name")
	rc.readReplaces(r, f["replaces"])
	u := units{requests: whole(f["requests_per_unit"], "requests_per_unit", 0), multiplier: whole(f["unit_multiplier"], "unit_multiplier", 1)}
	var known bool
	u.unit, known = unitOf(unit)
	unitAt, ok := f["unit"]
	if !ok {
		unitAt = n
	}
	switch {
	case rc.unlimited && unit != "":
		unitAt.Fault("should not specify rate limit unit when unlimited")
	case rc.unlimited:
	case !known:
		unitAt.Fault("invalid rate limit unit '%s', want second, minute, hour, day, week, month or year", unit)
	default:
		var err error
		if rc.limit, err = u.allowance(); err != nil {
			f["unit_multiplier"].Fault("%v", err)
		}
	}
	if rc.limitName != "" && slices.Contains(rc.replaces, rc.limitName) {
		n.Fault("replaces should not contain name of same descriptor")
	}
}

func (rc *ruleConfig) readReplaces(r *reader, n yamlconf.Node) {
	for _, item := range maps(n, "replaces") {
		name := text(r.fields(item, "replaces", "name")["name"], "name")
		if name == "" {
			item.Fault("should not have an empty replaces entry: want name: NAME")
		}
		rc.replaces = append(rc.replaces, name)
	}
}

// describe sets the fields that follow from the path and the limit.
func (rc *ruleConfig) describe(path []entry) {
	rc.path, rc.name = path, nameOf(path)
	var id strings.Builder
	for i, e := range path {
		fmt.Fprintf(&id, "%s=%s", strconv.Quote(e.key), strconv.Quote(e.value))
		if e.separates() {
			rc.valueParts = append(rc.valueParts, i)
			id.WriteByte('+')
		}
		id.WriteByte('/')
	}
	rc.id = id.String() + rc.limit.Kind.String()
	if !rc.unlimited {
		rc.current = rc.limit.current(rc.limitName)
	}
}
