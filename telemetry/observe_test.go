package telemetry_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/resilience"
	"github.com/sluice-go/sluice/telemetry"
)

// counts is a Reporter of these counts.
type counts core.Statistics

func (c counts) Statistics() core.Statistics { return core.Statistics(c) }

func TestObserve(t *testing.T) {
	s := newSDK()
	s.Attributes = []attribute.KeyValue{attribute.String("zone", "b"), attribute.String("sluice.limiter.name", "not this")}
	stop := core.Must(telemetry.Observe(s.Options, "api", counts{Limit: 10, Available: 4, Queued: 2, Granted: 7, Rejected: 3}))

	points, _ := s.collect(t)
	require.Equal(t, map[string]point{
		"sluice.limiter.permits.limit{sluice.limiter.name=api,zone=b}":                 {value: 10},
		"sluice.limiter.permits.available{sluice.limiter.name=api,zone=b}":             {value: 4},
		"sluice.limiter.permits.queued{sluice.limiter.name=api,zone=b}":                {value: 2},
		"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted,zone=b}":  {value: 7},
		"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=rejected,zone=b}": {value: 3},
	}, points)

	require.NoError(t, stop())
	require.NoError(t, stop())
	points, _ = s.collect(t)
	require.Equal(t, []string{
		"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted,zone=b}",
		"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=rejected,zone=b}",
	}, names(points), "gauges are gone, totals stay")
}

// What becomes of the caller's attributes later is nothing to the metrics.
func TestAttributesAreCopied(t *testing.T) {
	s := newSDK()
	s.Attributes = []attribute.KeyValue{attribute.String("zone", "b")}
	h := core.Must(telemetry.HTTP(s.Options))
	tell := core.Must(telemetry.Resilience(s.Options))
	s.Attributes[0] = attribute.String("zone", "c")
	h.Queued(t.Context(), "api", 1)
	tell(t.Context(), &resilience.RejectedError{Strategy: "orders"})
	points, _ := s.collect(t)
	require.Equal(t, map[string]point{
		"sluice.http.queued_requests{sluice.http.policy=api,zone=b}":                                                  {value: 1},
		"sluice.resilience.events{event.name=OnRateLimiterRejected,event.severity=ERROR,strategy.name=orders,zone=b}": {value: 1},
	}, points)
}

type broken struct{}

func (broken) Statistics() core.Statistics { panic("broken") }

func TestAReporterThatPanicsBreaksNoOther(t *testing.T) {
	s := newSDK()
	core.Must(telemetry.Observe(s.Options, "broken", broken{}))
	core.Must(telemetry.Observe(s.Options, "api", counts{Limit: 1}))
	points, _, err := s.read()
	require.ErrorContains(t, err, `telemetry: reading "broken" panicked: broken`)
	require.Len(t, points, 5)
	require.Equal(t, point{value: 1}, points["sluice.limiter.permits.limit{sluice.limiter.name=api}"])
}

func TestNothingToObserve(t *testing.T) {
	_, err := telemetry.Observe(newSDK().Options, "api", nil)
	require.EqualError(t, err, `telemetry: Observe of limiter "api", which is nil`)
	_, err = telemetry.Observe(newSDK().Options, "api", (*core.TokenBucket)(nil))
	require.Error(t, err)
	_, _, err = telemetry.Instrument(newSDK().Options, "api", nil)
	require.EqualError(t, err, `telemetry: Instrument of limiter "api", which is nil`)
	_, err = telemetry.Partitions[string, string](newSDK().Options, "api", nil)
	require.EqualError(t, err, `telemetry: Partitions of "api", which is nil`)
}

func TestPartitions(t *testing.T) {
	k := core.Must(partition.New(partition.Options[string, string]{
		Key:           func(r string) string { return r },
		New:           func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(1, 1)) },
		MaxPartitions: 2,
	}))
	s := newSDK()
	stop := core.Must(telemetry.Partitions(s.Options, "clients", k))
	for _, key := range []string{"a", "b", "c", "d", "a"} {
		k.TryAcquire(key, 1)
	}
	c := k.Counts()
	require.Equal(t, uint64(2), c.Overflowed)
	points, _ := s.collect(t)
	require.Equal(t, map[string]point{
		"sluice.partition.live{sluice.limiter.name=clients}":       {value: float64(c.Live)},
		"sluice.partition.created{sluice.limiter.name=clients}":    {value: float64(c.Created)},
		"sluice.partition.dropped{sluice.limiter.name=clients}":    {value: float64(c.Dropped)},
		"sluice.partition.overflowed{sluice.limiter.name=clients}": {value: 2},
	}, points)
	require.NoError(t, stop())
	points, _ = s.collect(t)
	require.NotContains(t, points, "sluice.partition.live{sluice.limiter.name=clients}")
}

func TestHTTPAndGRPC(t *testing.T) {
	http := map[string]point{
		"sluice.http.active_request_leases{sluice.http.policy=api}":                             {value: 1},
		"sluice.http.queued_requests{sluice.http.policy=api}":                                   {value: 0},
		"sluice.http.requests{sluice.http.policy=api,sluice.http.result=acquired}":              {value: 2},
		"sluice.http.requests{sluice.http.policy=api,sluice.http.result=endpoint_limiter}":      {value: 1},
		"sluice.http.requests{sluice.http.policy=all,sluice.http.result=global_limiter}":        {value: 1},
		"sluice.http.requests{sluice.http.policy=all,sluice.http.result=request_canceled}":      {value: 1},
		"sluice.http.requests{sluice.http.policy=all,sluice.http.result=failed}":                {value: 1},
		"sluice.http.requests{sluice.http.policy=all,sluice.http.result=Result(9)}":             {value: 1},
		"sluice.http.request.time_in_queue{sluice.http.policy=api,sluice.http.result=acquired}": {0.25, 1},
		"sluice.http.request_lease.duration{sluice.http.policy=api}":                            {1.5, 1},
	}
	grpc := make(map[string]point)
	rename := strings.NewReplacer("http.request", "rpc.call", "http.active_request", "rpc.active_call",
		"http.queued_request", "rpc.queued_call", "http.", "rpc.", "{", "{rpc.system.name=grpc,")
	for name, p := range http {
		grpc[rename.Replace(name)] = p
	}
	for name, c := range map[string]struct {
		observer func(telemetry.Options) (httplimit.Observer, error)
		want     map[string]point
	}{"HTTP": {telemetry.HTTP, http}, "gRPC": {telemetry.GRPC, grpc}} {
		t.Run(name, func(t *testing.T) {
			s := newSDK()
			o, err := c.observer(s.Options)
			require.NoError(t, err)
			observeHTTP(o)
			points, _ := s.collect(t)
			require.Equal(t, c.want, points)
		})
	}
}

func observeHTTP(o httplimit.Observer) {
	ctx := context.Background()
	o.Queued(ctx, "api", 1)
	o.Queued(ctx, "api", -1)
	o.Decided(ctx, "api", httplimit.Acquired, 250*time.Millisecond)
	o.Active(ctx, "api", 1)
	o.Decided(ctx, "api", httplimit.Acquired, 0)
	o.Active(ctx, "api", 1)
	o.Active(ctx, "api", -1)
	o.Released(ctx, "api", 1500*time.Millisecond)
	o.Decided(ctx, "api", httplimit.RejectedByPolicy, 0)
	for _, r := range []httplimit.Result{httplimit.RejectedByGlobal, httplimit.RequestCanceled, httplimit.Failed, 9} {
		o.Decided(ctx, "all", r, 0)
	}
}

// TestTable holds every metric against the table of the package's documentation.
func TestTable(t *testing.T) {
	s := newSDK()
	useAll(t, s.Options)
	_, all := s.collect(t)
	for name, want := range map[string]string{
		"sluice.limiter.permits.limit":       "{permit} gauge",
		"sluice.limiter.permits.available":   "{permit} gauge",
		"sluice.limiter.permits.queued":      "{permit} gauge",
		"sluice.limiter.permits.settled":     "{permit} counter",
		"sluice.limiter.leases":              "{lease} counter",
		"sluice.limiter.queue.duration":      "s histogram",
		"sluice.limiter.lease.duration":      "s histogram",
		"sluice.partition.live":              "{partition} gauge",
		"sluice.partition.created":           "{partition} counter",
		"sluice.partition.dropped":           "{partition} counter",
		"sluice.partition.overflowed":        "{partition} counter",
		"sluice.http.active_request_leases":  "{request} up-down counter",
		"sluice.http.queued_requests":        "{request} up-down counter",
		"sluice.http.request.time_in_queue":  "s histogram",
		"sluice.http.request_lease.duration": "s histogram",
		"sluice.http.requests":               "{request} counter",
		"sluice.resilience.events":           "{event} counter",
	} {
		m := all[name]
		require.Equal(t, want, m.Unit+" "+kind(t, m), name)
		require.NotEmpty(t, m.Description, name)
		delete(all, name)
	}
	require.Empty(t, names(all))
}

func kind(t *testing.T, m metricdata.Metrics) string {
	t.Helper()
	switch d := m.Data.(type) {
	case metricdata.Gauge[int64]:
		return "gauge"
	case metricdata.Sum[int64]:
		require.Equal(t, metricdata.CumulativeTemporality, d.Temporality)
		if d.IsMonotonic {
			return "counter"
		}
		return "up-down counter"
	case metricdata.Histogram[float64]:
		bounds := d.DataPoints[0].Bounds
		require.Equal(t, []float64{1e-6, 100}, []float64{bounds[0], bounds[len(bounds)-1]})
		return "histogram"
	}
	return "none"
}
