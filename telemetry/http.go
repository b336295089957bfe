package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/httplimit"
)

// HTTP returns an observer for [httplimit.Options]. It counts requests and their leases, and
// times the leases and the waits of requests that waited, by policy. One observer serves any
// number of [httplimit.Limits].
func HTTP(o Options) (httplimit.Observer, error) {
	o.Attributes = slices.Clone(o.Attributes) // it is read later
	m := o.meter()
	h := &httpObserver{options: o}
	var errs [5]error
	h.active, errs[0] = m.Int64UpDownCounter("sluice.http.active_request_leases",
		metric.WithUnit("{request}"), metric.WithDescription("Requests that hold a lease."))
	h.queued, errs[1] = m.Int64UpDownCounter("sluice.http.queued_requests",
		metric.WithUnit("{request}"), metric.WithDescription("Requests that wait for a lease."))
	h.inQueue, errs[2] = durations(m, "sluice.http.request.time_in_queue", "How long requests waited for a lease.")
	h.held, errs[3] = durations(m, "sluice.http.request_lease.duration", "How long requests held a lease.")
	h.requests, errs[4] = m.Int64Counter("sluice.http.requests",
		metric.WithUnit("{request}"), metric.WithDescription("Requests that asked for a lease."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return h, nil
}

type httpObserver struct {
	options        Options
	active, queued metric.Int64UpDownCounter
	inQueue, held  metric.Float64Histogram
	requests       metric.Int64Counter
	policies       sync.Map // of *policyAttributes by name; as many as there are policies
}

// policyAttributes are made once for a policy, and not for each request.
type policyAttributes struct {
	plain   metric.MeasurementOption
	results [httplimit.Failed + 1]metric.MeasurementOption
}

func (h *httpObserver) Queued(ctx context.Context, policy string, delta int) {
	h.queued.Add(ctx, int64(delta), h.of(policy).plain)
}

func (h *httpObserver) Decided(ctx context.Context, policy string, r httplimit.Result, waited time.Duration) {
	with := h.decided(policy, r)
	h.requests.Add(ctx, 1, with)
	if waited > 0 {
		h.inQueue.Record(ctx, waited.Seconds(), with)
	}
}

func (h *httpObserver) Active(ctx context.Context, policy string, delta int) {
	h.active.Add(ctx, int64(delta), h.of(policy).plain)
}

func (h *httpObserver) Released(ctx context.Context, policy string, held time.Duration) {
	h.held.Record(ctx, held.Seconds(), h.of(policy).plain)
}

// of returns the attributes of a policy.
func (h *httpObserver) of(policy string) *policyAttributes {
	if a, ok := h.policies.Load(policy); ok {
		return a.(*policyAttributes)
	}
	a := &policyAttributes{plain: h.options.with(policyName(policy))}
	for r := range a.results {
		a.results[r] = h.options.with(policyName(policy), httpResult(httplimit.Result(r)))
	}
	kept, _ := h.policies.LoadOrStore(policy, a)
	return kept.(*policyAttributes)
}

func (h *httpObserver) decided(policy string, r httplimit.Result) metric.MeasurementOption {
	if a := h.of(policy); int(r) < len(a.results) {
		return a.results[r]
	}
	return h.options.with(policyName(policy), httpResult(r))
}

func policyName(policy string) attribute.KeyValue {
	return attribute.String("sluice.http.policy", policy)
}

func httpResult(r httplimit.Result) attribute.KeyValue {
	return attribute.String("sluice.http.result", r.String())
}
