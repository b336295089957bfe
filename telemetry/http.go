package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/telemetry/internal/metrics"
)

// HTTP returns an observer for [httplimit.Options]. Per policy, it counts requests by result, and
// measures how long leases were held and how long requests waited. One observer serves any number of
// [httplimit.Limits].
func HTTP(o Options) (httplimit.Observer, error) { return newObserver(o, "sluice.http", "request") }

// GRPC returns an observer for the options of package grpclimit. It is like [HTTP], but for gRPC
// calls: its metrics start with "sluice.rpc.", count calls, and have the attribute rpc.system.name
// = grpc.
func GRPC(o Options) (httplimit.Observer, error) {
	o.Attributes = append(slices.Clone(o.Attributes), attribute.String("rpc.system.name", "grpc"))
	return newObserver(o, "sluice.rpc", "call")
}

// newObserver returns an observer whose metrics start with space and count things, such as requests.
func newObserver(o Options, space, thing string) (httplimit.Observer, error) {
	m, of := o.instruments(), metrics.OfServer(space, thing)
	h := &httpObserver{
		options:  o,
		policy:   attribute.Key(space + ".policy"),
		result:   attribute.Key(space + ".result"),
		active:   instrument(m, metric.Meter.Int64UpDownCounter, of.Active),
		queued:   instrument(m, metric.Meter.Int64UpDownCounter, of.Queued),
		inQueue:  m.durations(of.InQueue),
		held:     m.durations(of.Held),
		requests: m.counter(of.Requests),
	}
	if m.err != nil {
		return nil, m.err
	}
	return h, nil
}

type httpObserver struct {
	options        Options
	policy, result attribute.Key
	active, queued metric.Int64UpDownCounter
	inQueue, held  metric.Float64Histogram
	requests       metric.Int64Counter

	// attributes maps each httpLabels to its metric.MeasurementOption, because making an option
	// takes longer than recording with it.
	attributes sync.Map
}

// httpLabels are the values of the attributes. The result is "" for metrics without one.
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
	own := []attribute.KeyValue{h.policy.String(policy)}
	if result != "" {
		own = append(own, h.result.String(result))
	}
	with := h.options.with(own...)
	h.attributes.Store(labels, with)
	return with
}
