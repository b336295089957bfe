package rlslimit

import (
	"cmp"
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
	at         string // the same, but unique to the path, with the marks of entries whose values have limiters of their own
	id         string // at, and what is unique to the limit among those of the descriptor
	limit      allowance
	others     []*ruleConfig                          // rules for the further limits of the same descriptor, which all apply
	isOther    bool                                   // it is one of another's others
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

// wantsDetails reports whether there are counts by names with values.
func (rc *ruleConfig) wantsDetails() bool {
	return rc.detailed || slices.ContainsFunc(rc.path, func(e entry) bool { return e.inMetric && e.separates() })
}

// readSpec reads limits as package spec has them, separated by commas.
func (rc *ruleConfig) readSpec(n yamlconf.Node) {
	line := text(n, "limit")
	limits, err := spec.ParseLimits(line)
	if err != nil {
		n.Fault("limit: %s", strings.TrimPrefix(err.Error(), "spec: "))
		return
	}
	texts := strings.Split(line, ",") // a text per limit
	rc.unlimited = true
	for i, l := range limits {
		checkSpec(n, strings.TrimSpace(texts[i]), l)
		if l.Kind == spec.Unlimited {
			continue
		}
		of := rc
		if !rc.unlimited {
			of = new(*rc)
			of.others, of.isOther = nil, true
			rc.others = append(rc.others, of)
		}
		rc.unlimited = false
		of.limit = ofSpec(l)
		if l.Kind == spec.Blocked || l.Kind == spec.Paused { // no request waits here
			of.limit, _ = units{0, second, 1}.allowance() // a ban, like requests_per_unit: 0
		}
	}
}

// checkSpec reports a limit that the service cannot enforce.
func checkSpec(n yamlconf.Node, text string, l spec.Limit) {
	switch {
	case l.Kind == spec.Concurrency:
		n.Fault("limit: %q is for what runs at a time, and nothing says when a request ends: want a bucket, a fixed or a sliding window", text)
	case l.Bytes:
		n.Fault("limit: %q is an amount of bytes, but a limit counts hits: write a number such as 10/s, without B", text)
	case l.Queue > 0:
		n.Fault("limit: %q has a queue, in which no request waits", text)
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
		if f["requests_per_unit"].IsNull() {
			r.warn(n, "rate_limit has no requests_per_unit: it rejects everything, like requests_per_unit: 0")
		}
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

// describe sets the fields that follow from the path and the limits, also those of the others.
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
	rc.at = id.String()
	if !rc.unlimited {
		rc.current = rc.limit.current(rc.limitName)
	}
	for _, o := range rc.others {
		o.path, o.name, o.at, o.valueParts = rc.path, rc.name, rc.at, rc.valueParts
		o.current = o.limit.current(o.limitName)
	}
	rc.identify()
}

// identify sets the ids of the limits. A limit keeps its id if the limits are in another order, or change their numbers. Of several
// limits of one kind, the one of the longest time has the id that it would have alone: its counts are the ones that matter longest.
func (rc *ruleConfig) identify() {
	limits := append([]*ruleConfig{rc}, rc.others...)
	slices.SortStableFunc(limits, func(a, b *ruleConfig) int { return cmp.Compare(b.limit.period(), a.limit.period()) })
	of := make(map[spec.Kind]int)
	for _, l := range limits {
		l.id = l.at + l.limit.Kind.String()
		if n := of[l.limit.Kind]; n > 0 {
			l.id += strconv.Itoa(n + 1)
		}
		of[l.limit.Kind]++
	}
}
