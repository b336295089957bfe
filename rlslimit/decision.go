package rlslimit

import (
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	config "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/redislimit"
)

// decision is a request while it is decided.
type decision struct {
	service *Service
	domain  *domain // nil: there is none of that name
	visits  []visit // one for each descriptor
	over    bool    // the request is over the limit
	away    bool    // the store has not answered about one of them, and is not asked again
}

// visit is a descriptor while it is decided.
type visit struct {
	rule  *rule // nil: no rule is for it
	terms *terms
	limit allowance
	name  string // with values, for the counts; "": the rule's
	key   string
	hits  uint64
	back  bool // the hits are given back
	left  bool // another limit replaces its own

	limiters *partition.Keyed[string, string] // that decided
	at       string                           // its key there
	lease    core.Lease
	outcome  outcome
	remains  int
	reset    time.Duration
}

// outcome is how a descriptor was decided.
type outcome uint8

const (
	free       outcome = iota // it has no limit
	granted                   // lease has the hits
	rejected                  // over the limit
	unanswered                // the store did not decide
)

// match finds the rule of the entries.
func (v *visit) match(d *domain, entries []*envoy.RateLimitDescriptor_Entry) {
	n := &d.root
	for _, e := range entries {
		if n = n.find(e.GetKey(), e.GetValue()); n == nil {
			return
		}
	}
	if n.rule == nil {
		return
	}
	v.rule = d.live[n.rule]
	v.terms = v.rule.terms.Load()
	v.limit = v.terms.limit
	switch parts := n.rule.valueParts; len(parts) {
	case 0:
	case 1:
		v.key = short(entries[parts[0]].GetValue())
	default:
		var b strings.Builder
		for _, i := range parts {
			writeText(&b, entries[i].GetValue())
		}
		v.key = short(b.String())
	}
	v.name = n.rule.nameFor(entries)
}

// overridden sets a limit that comes with the request.
func (v *visit) overridden(d *domain, descriptor *envoy.RateLimitDescriptor, l allowance) {
	var b strings.Builder
	for _, e := range descriptor.GetEntries() {
		writeText(&b, e.GetKey())
		writeText(&b, e.GetValue())
	}
	v.rule, v.terms, v.limit = d.override, d.override.terms.Load(), l
	v.key = overrideKey(l) + short(b.String())
}

// nameFor returns the name of a rule with the values that its metrics want; "": none.
func (rc *ruleConfig) nameFor(entries []*envoy.RateLimitDescriptor_Entry) string {
	wanted := rc.detailed
	for _, e := range rc.path {
		wanted = wanted || e.inMetric && !e.shared && e.match != exact
	}
	if !wanted {
		return ""
	}
	var b strings.Builder
	for i, e := range rc.path {
		if i > 0 {
			b.WriteByte('.')
		}
		own := e
		if !e.shared && (rc.detailed || e.inMetric) {
			own.value = entries[i].GetValue()
		}
		b.WriteString(own.name())
	}
	return b.String()
}

// decide takes the hits of all descriptors, or of none.
func (d *decision) decide() {
	for i := range d.visits {
		v := &d.visits[i]
		if v.rule == nil || v.terms.unlimited {
			continue
		}
		d.try(v)
		enforced := !v.terms.shadow && !v.terms.quota
		switch v.outcome {
		case rejected:
			d.over = d.over || enforced && !v.back
		case unanswered:
			d.over = d.over || enforced && !d.domain.failOpen
		case free, granted:
		}
	}
	now := time.Now()
	for i := len(d.visits) - 1; i >= 0; i-- {
		d.visits[i].end(d, now)
	}
}

// try takes the hits of one descriptor.
func (d *decision) try(v *visit) {
	switch {
	case v.limit.bans():
		v.outcome = rejected
		return
	case d.away:
		v.outcome = unanswered
		return
	}
	hits := number(v.hits)
	if v.back {
		hits = 0 // it looks
	}
	v.lease, v.limiters, v.at = v.rule.tryAcquire(v.key, hits)
	err := v.lease.Err()
	switch {
	case err == nil:
		v.outcome = granted
	case errors.Is(err, redislimit.ErrStore):
		v.outcome, d.away = unanswered, true
	case errors.Is(err, core.ErrClosed): // the rule has gone since
		v.outcome = free
	default:
		v.outcome = rejected
	}
	if v.outcome == granted || v.outcome == rejected {
		v.remains, _ = core.Remaining.From(v.lease)
		v.reset, _ = core.ResetAfter.From(v.lease)
	}
}

func number(hits uint64) int { return int(min(hits, math.MaxInt)) }

// end does what is left to do once it is known whether the request is over the limit.
func (v *visit) end(d *decision, now time.Time) {
	if v.rule == nil {
		return
	}
	c := &v.rule.counts
	if v.name != "" {
		c = v.rule.countsOf(v.name)
	}
	switch {
	case v.terms.unlimited:
		c.granted.Add(v.hits)
	case v.outcome == unanswered:
		c.unanswered.Add(1)
		if v.code(d) == ratelimit.RateLimitResponse_OK {
			v.remains = int(min(v.limit.perUnit(), math.MaxInt32))
		}
	case v.back && d.over:
	case v.back:
		v.giveBack()
		c.givenBack.Add(v.hits)
	case v.outcome == granted && d.over:
		if !d.away {
			v.limiters.Refund(v.at, v.lease)
		}
		v.remains += number(v.hits) // what it was before
	case v.outcome == granted:
		c.granted.Add(v.hits)
	case v.outcome == rejected && (v.terms.shadow || v.terms.quota):
		v.drain()
		c.shadowed.Add(v.hits)
		if l := d.service.options.Logger; l != nil && v.rule.mayLog() {
			l.Info("over the limit, and let through", slog.String("domain", d.domain.name), slog.String("rule", v.terms.name))
		}
	case v.outcome == rejected:
		v.drain()
		c.rejected.Add(v.hits)
	}
	if left := v.limit.untilEnd(now); left > 0 && v.outcome != free && v.reset <= 0 {
		v.reset = left
	}
}

// drain takes what is left of a limit that has rejected several hits, so that a client that looks first, and charges at
// the end whatever the answer is, finds it used up.
func (v *visit) drain() {
	if v.hits <= 1 || v.limiters == nil {
		return
	}
	l, ok := v.limiters.Get(v.at)
	if !ok {
		return
	}
	for range 8 { // others take, too
		left := l.Available()
		if left <= 0 {
			break
		}
		if all := v.limiters.TryAcquire(v.at, left); all.Acquired() {
			v.reset, _ = core.ResetAfter.From(all)
			break
		}
	}
	v.remains = 0
}

// giveBack returns hits to the limit, which try has looked at. It has a limiter then, also in a process that has taken nothing.
func (v *visit) giveBack() {
	if v.limiters == nil {
		return
	}
	if l, ok := v.limiters.Get(v.at); ok {
		if f, ok := l.(*follower); ok {
			f.GiveBack(number(v.hits))
		}
	}
	most := int(v.limit.perUnit())
	v.remains += min(number(v.hits), most-min(v.remains, most))
}

// code returns how a descriptor is answered.
func (v *visit) code(d *decision) ratelimit.RateLimitResponse_Code {
	switch {
	case v.rule == nil, v.terms.unlimited, v.terms.shadow, v.terms.quota, v.back && v.outcome == rejected:
	case v.outcome == rejected, v.outcome == unanswered && !d.domain.failOpen:
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

// answer returns the answer to the request.
func (d *decision) answer() *ratelimit.RateLimitResponse {
	response := &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, len(d.visits)),
	}
	if d.over {
		response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	statuses := make([]ratelimit.RateLimitResponse_DescriptorStatus, len(d.visits))
	for i := range d.visits {
		d.visits[i].fill(d, &statuses[i])
		response.Statuses[i] = &statuses[i]
	}
	if d.service.options.Headers {
		response.ResponseHeadersToAdd = headers(response.Statuses)
	}
	response.DynamicMetadata = d.dynamicMetadata()
	return response
}

// fill fills in the status of a descriptor.
func (v *visit) fill(d *decision, s *ratelimit.RateLimitResponse_DescriptorStatus) {
	s.Code = v.code(d)
	switch {
	case v.rule == nil:
		return
	case v.terms.unlimited:
		s.LimitRemaining = math.MaxUint32
		return
	case v.outcome == free && !v.back:
		return
	}
	if s.CurrentLimit = v.terms.current; s.CurrentLimit == nil {
		s.CurrentLimit = v.limit.current("")
	}
	s.LimitRemaining = saturated(uint64(max(v.remains, 0)))
	reset := v.reset
	if v.limit.Unit != 0 { // whole seconds, as the reference has them
		reset = (reset + time.Second - 1).Truncate(time.Second)
	}
	s.DurationUntilReset = durationpb.New(max(reset, 0))
}

// headers returns the fields of the descriptor that has the least left, or of the last that is over its limit.
func headers(statuses []*ratelimit.RateLimitResponse_DescriptorStatus) []*config.HeaderValue {
	var least *ratelimit.RateLimitResponse_DescriptorStatus
	for _, s := range statuses {
		switch {
		case s.CurrentLimit == nil:
		case s.Code == ratelimit.RateLimitResponse_OVER_LIMIT, least == nil,
			least.Code != ratelimit.RateLimitResponse_OVER_LIMIT && s.LimitRemaining < least.LimitRemaining:
			least = s
		}
	}
	if least == nil {
		return nil
	}
	seconds := int64((least.DurationUntilReset.AsDuration() + time.Second - 1) / time.Second)
	return []*config.HeaderValue{
		{Key: "RateLimit-Limit", Value: strconv.FormatUint(uint64(least.CurrentLimit.RequestsPerUnit), 10)},
		{Key: "RateLimit-Remaining", Value: strconv.FormatUint(uint64(least.LimitRemaining), 10)},
		{Key: "RateLimit-Reset", Value: strconv.FormatInt(seconds, 10)},
	}
}

// dynamicMetadata returns what the reference's has: the violations of rules with quota_mode, and the metadata of the
// descriptors that pass. It returns nil if no descriptor has such a rule.
func (d *decision) dynamicMetadata() *structpb.Struct {
	fields := make(map[string]*structpb.Value)
	var violations []*structpb.Value
	passed := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i := range d.visits {
		v := &d.visits[i]
		if v.rule == nil {
			continue
		}
		if v.terms.quota {
			fields["quotaModeEnabled"] = structpb.NewBoolValue(true)
			if v.outcome == rejected {
				violations = append(violations, structpb.NewNumberValue(float64(i)))
			}
		}
		if v.outcome != rejected {
			merge(passed, v.terms.metadata)
		}
	}
	if len(violations) > 0 {
		fields["quotaModeViolations"] = structpb.NewListValue(&structpb.ListValue{Values: violations})
	}
	if len(passed.GetFields()) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	if len(fields) == 0 {
		return nil
	}
	return &structpb.Struct{Fields: fields}
}

// merge adds the fields that to does not have yet, also within mappings that both have. It does not change the values of from.
func merge(to, from *structpb.Struct) {
	for key, value := range from.GetFields() {
		own, both := to.Fields[key], value.GetStructValue()
		switch {
		case own == nil && both != nil:
			copied := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
			merge(copied, both)
			to.Fields[key] = structpb.NewStructValue(copied)
		case own == nil:
			to.Fields[key] = value
		case own.GetStructValue() != nil && both != nil:
			merge(own.GetStructValue(), both)
		}
	}
}
