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

// HTTP returns an observer for [httplimit.Options]. By policy, it counts requests by their
// result, times the leases, and times the waits of requests that waited. One observer serves any
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

	// attributes maps each httpLabels to its metric.MeasurementOption, because making an option
	// takes longer than recording with it.
	attributes sync.Map
}

// httpLabels are the values of the attributes. The result is "" where there is none.
type httpLabels struct{ policy, result string }

func (h *httpObserver) Queued(ctx context.Context, policy string, delta int) {
	h.queued.Add(ctx, int64(delta), h.with(policy, ""))
}

func (h *httpObserver) Decided(ctx context.Context, policy string, r httplimit.Result, waited time.Duration) {
	with := h.with(policy, r.String())
	h.requests.Add(ctx, 1, with)
	if waited > 0 {
		h.inQueue.Record(ctx, waited.Seconds(), with)
	}
}

func (h *httpObserver) Active(ctx context.Context, policy string, delta int) {
	h.active.Add(ctx, int64(delta), h.with(policy, ""))
}

func (h *httpObserver) Released(ctx context.Context, policy string, held time.Duration) {
	h.held.Record(ctx, held.Seconds(), h.with(policy, ""))
}

// with returns the attributes of a measurement.
func (h *httpObserver) with(policy, result string) metric.MeasurementOption {
	labels := httpLabels{policy, result}
	if with, ok := h.attributes.Load(labels); ok {
		return with.(metric.MeasurementOption)
	}
	own := []attribute.KeyValue{attribute.String("sluice.http.policy", policy)}
	if result != "" {
		own = append(own, attribute.String("sluice.http.result", result))
	}
	with := h.options.with(own...)
	h.attributes.Store(labels, with)
	return with
}
