package rlslimit

import (
	"math"
	"strconv"
	"time"

	config "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-go/sluice/spec"
)

// code returns the code of a descriptor.
func (v *visit) code(d *decision) ratelimit.RateLimitResponse_Code {
	switch {
	case v.rule == nil, v.config.unlimited, !v.enforced():
	case v.outcome == rejected, v.outcome == undecided && !d.domain.failOpen:
		return ratelimit.RateLimitResponse_OVER_LIMIT
	}
	return ratelimit.RateLimitResponse_OK
}

// response returns the response to the request.
func (d *decision) response() *ratelimit.RateLimitResponse {
	response := &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses:    make([]*ratelimit.RateLimitResponse_DescriptorStatus, 0, len(d.visits)),
	}
	if d.over {
		response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	statuses := make([]ratelimit.RateLimitResponse_DescriptorStatus, len(d.visits))
	for visits := range d.descriptors() {
		s := &statuses[len(response.Statuses)]
		decider(visits).fill(d, s)
		response.Statuses = append(response.Statuses, s)
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
	case v.config.unlimited:
		s.LimitRemaining = math.MaxUint32
		return
	case v.outcome == free: // the rule has gone
		return
	}
	if s.CurrentLimit = v.config.current; s.CurrentLimit == nil {
		s.CurrentLimit = v.limit.current("")
	}
	s.LimitRemaining = saturated(uint64(max(v.remains, 0)))
	reset := v.reset
	if v.limit.Kind == spec.FixedWindow { // whole seconds, as in envoyproxy/ratelimit
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

// dynamicMetadata returns the same as that of envoyproxy/ratelimit: the violations of rules with quota_mode, and the metadata of
// the descriptors that pass. It returns nil if no descriptor has such a rule.
func (d *decision) dynamicMetadata() *structpb.Struct {
	fields := make(map[string]*structpb.Value)
	var violations []*structpb.Value
	passed := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	at := -1
	for visits := range d.descriptors() {
		at++
		v := decider(visits)
		if v.rule == nil {
			continue
		}
		if v.config.quota {
			fields["quotaModeEnabled"] = structpb.NewBoolValue(true)
			if v.outcome == rejected {
				violations = append(violations, structpb.NewNumberValue(float64(at)))
			}
		}
		if v.outcome != rejected {
			merge(passed, v.config.metadata)
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
