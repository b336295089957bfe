package prometheus_test

import (
	"math"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/telemetry/prometheus"
)

// counts is a Reporter of these counts.
type counts core.Statistics

func (c counts) Statistics() core.Statistics { return core.Statistics(c) }

func TestCollector(t *testing.T) {
	limiters := map[string]core.Reporter{
		"api":       counts{Limit: 10, Available: 4, Queued: 2, Granted: 7, Rejected: 3},
		"log\xffin": counts{Limit: math.MaxInt},
	}
	c := prometheus.NewCollector(limiters)
	delete(limiters, "api") // the map was copied
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP sluice_limiter_leases_total Leases granted and rejected.
# TYPE sluice_limiter_leases_total counter
sluice_limiter_leases_total{sluice_limiter_name="api",sluice_result="granted"} 7
sluice_limiter_leases_total{sluice_limiter_name="api",sluice_result="rejected"} 3
sluice_limiter_leases_total{sluice_limiter_name="log�in",sluice_result="granted"} 0
sluice_limiter_leases_total{sluice_limiter_name="log�in",sluice_result="rejected"} 0
# HELP sluice_limiter_permits_available Permits that could be taken now.
# TYPE sluice_limiter_permits_available gauge
sluice_limiter_permits_available{sluice_limiter_name="api"} 4
sluice_limiter_permits_available{sluice_limiter_name="log�in"} 0
# HELP sluice_limiter_permits_limit The current permit limit.
# TYPE sluice_limiter_permits_limit gauge
sluice_limiter_permits_limit{sluice_limiter_name="api"} 10
sluice_limiter_permits_limit{sluice_limiter_name="log�in"} 9.223372036854775807e+18
# HELP sluice_limiter_permits_queued Permits that are waited for.
# TYPE sluice_limiter_permits_queued gauge
sluice_limiter_permits_queued{sluice_limiter_name="api"} 2
sluice_limiter_permits_queued{sluice_limiter_name="log�in"} 0
`)))
}

func TestPartitions(t *testing.T) {
	keyed := core.Must(partition.New(partition.Options[string, string]{
		Key: func(r string) string { return r }, MaxPartitions: 2,
		New: func(string) (core.Limiter, error) {
			return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
		},
		Group: func(string) string { return "others" },
	}))
	for _, key := range []string{"a", "b", "c", "a"} {
		require.True(t, keyed.TryAcquire(key, 1).Acquired())
	}
	c := prometheus.NewPartitions(map[string]prometheus.Partitions{"tenants": keyed})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP sluice_partition_created_total Partitions made.
# TYPE sluice_partition_created_total counter
sluice_partition_created_total{sluice_limiter_name="tenants"} 3
# HELP sluice_partition_dropped_total Partitions dropped for idleness.
# TYPE sluice_partition_dropped_total counter
sluice_partition_dropped_total{sluice_limiter_name="tenants"} 0
# HELP sluice_partition_live Partitions that are there now.
# TYPE sluice_partition_live gauge
sluice_partition_live{sluice_limiter_name="tenants"} 2
# HELP sluice_partition_overflowed_total Requests that found no room for a partition.
# TYPE sluice_partition_overflowed_total counter
sluice_partition_overflowed_total{sluice_limiter_name="tenants"} 1
`)))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)

	r := client.NewPedanticRegistry()
	var none *partition.Keyed[string, string]
	require.NoError(t, r.Register(prometheus.NewPartitions(map[string]prometheus.Partitions{"none": none})))
	_, err = r.Gather()
	require.ErrorContains(t, err, `prometheus: partitions "none" is nil`)
}

type broken struct{}

func (broken) Statistics() core.Statistics { panic("broken") }

func TestCollectorOfWhatCannotBeRead(t *testing.T) {
	for want, l := range map[string]core.Reporter{
		`reading limiter "api" panicked: broken`: broken{},
		`limiter "api" is nil`:                   (*core.TokenBucket)(nil),
	} {
		r := client.NewPedanticRegistry()
		require.NoError(t, r.Register(prometheus.NewCollector(map[string]core.Reporter{"api": l, "web": counts{Limit: 1}})))
		families, err := r.Gather()
		require.ErrorContains(t, err, want)
		require.Len(t, families, 4, "the others are there")
	}
}

func TestCollectorsOfOneRegistry(t *testing.T) {
	r := client.NewPedanticRegistry()
	api := prometheus.NewCollector(map[string]core.Reporter{"api": counts{Limit: 1}})
	require.NoError(t, r.Register(api))
	require.NoError(t, r.Register(prometheus.NewCollector(map[string]core.Reporter{"web": counts{Limit: 2}})))
	require.NoError(t, r.Register(prometheus.NewCollector(nil)))
	both := prometheus.NewCollector(map[string]core.Reporter{"api": counts{Limit: 3}, "x": counts{}})
	require.Error(t, r.Register(both), "two limiters of one name")
	require.Equal(t, 10, count(t, r))
	require.True(t, r.Unregister(api))
	require.Equal(t, 5, count(t, r))
	require.NoError(t, r.Register(both))
	require.Equal(t, 15, count(t, r))
}

func count(t *testing.T, r client.Gatherer) int {
	t.Helper()
	n, err := testutil.GatherAndCount(r)
	require.NoError(t, err)
	return n
}

func TestHTTP(t *testing.T) {
	h := prometheus.NewHTTP()
	var _ httplimit.Observer = h
	ctx := t.Context()
	h.Queued(ctx, "api", 1)
	h.Decided(ctx, "api", httplimit.Acquired, 250*time.Millisecond)
	h.Decided(ctx, "api", httplimit.RejectedByPolicy, 0)
	h.Active(ctx, "api", 1)
	h.Active(ctx, "\xff", 1)
	h.Released(ctx, "api", 1500*time.Millisecond)
	require.NoError(t, testutil.CollectAndCompare(h, strings.NewReader(`
# HELP sluice_http_active_request_leases Requests that hold a lease.
# TYPE sluice_http_active_request_leases gauge
sluice_http_active_request_leases{sluice_http_policy="api"} 1
sluice_http_active_request_leases{sluice_http_policy="�"} 1
# HELP sluice_http_queued_requests Requests that wait for a lease.
# TYPE sluice_http_queued_requests gauge
sluice_http_queued_requests{sluice_http_policy="api"} 1
# HELP sluice_http_requests_total Requests that asked for a lease.
# TYPE sluice_http_requests_total counter
sluice_http_requests_total{sluice_http_policy="api",sluice_http_result="acquired"} 1
sluice_http_requests_total{sluice_http_policy="api",sluice_http_result="endpoint_limiter"} 1
`), "sluice_http_active_request_leases", "sluice_http_queued_requests", "sluice_http_requests_total"))
	require.Equal(t, 1, testutil.CollectAndCount(h, "sluice_http_request_time_in_queue_seconds"))
	require.Equal(t, 1, testutil.CollectAndCount(h, "sluice_http_request_lease_duration_seconds"))
	problems, err := testutil.CollectAndLint(h)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestAdaptive has two limiters. A change may lack a latency and a baseline; the gauges keep what is known.
func TestAdaptive(t *testing.T) {
	a := prometheus.NewAdaptive()
	api, web := a.OnChange("api"), a.OnChange("web\xff")
	api(adaptive.Change{Old: 10, New: 5, Reason: "trial", Latency: 20 * time.Millisecond})
	api(adaptive.Change{Old: 5, New: 10, Reason: "trial over", Latency: 30 * time.Millisecond, Baseline: 10 * time.Millisecond})
	api(adaptive.Change{Old: 10, New: 9, Reason: "dropped"})
	web(adaptive.Change{Old: 10, New: 9, Reason: "dropped"})
	web(adaptive.Change{Old: 9, New: 8, Reason: "dropped"})
	require.NoError(t, testutil.CollectAndCompare(a, strings.NewReader(`
# HELP sluice_adaptive_baseline_seconds The latency without load that the algorithm assumes.
# TYPE sluice_adaptive_baseline_seconds gauge
sluice_adaptive_baseline_seconds{sluice_limiter_name="api"} 0.01
# HELP sluice_adaptive_changes_total Changes of adaptive limits.
# TYPE sluice_adaptive_changes_total counter
sluice_adaptive_changes_total{sluice_adaptive_reason="dropped",sluice_limiter_name="api"} 1
sluice_adaptive_changes_total{sluice_adaptive_reason="dropped",sluice_limiter_name="web�"} 2
sluice_adaptive_changes_total{sluice_adaptive_reason="trial",sluice_limiter_name="api"} 1
sluice_adaptive_changes_total{sluice_adaptive_reason="trial over",sluice_limiter_name="api"} 1
# HELP sluice_adaptive_latency_seconds The mean latency at the last change of the limit.
# TYPE sluice_adaptive_latency_seconds gauge
sluice_adaptive_latency_seconds{sluice_limiter_name="api"} 0.03
`)))
	problems, err := testutil.CollectAndLint(a)
	require.NoError(t, err)
	require.Empty(t, problems)
}
