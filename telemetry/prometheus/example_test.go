package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/telemetry/prometheus"
)

func ExampleNewCollector() {
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2}))
	registry := client.NewRegistry() // promhttp.HandlerFor serves it
	registry.MustRegister(prometheus.NewCollector(map[string]core.Reporter{"api": limiter}))
	for range 3 {
		limiter.TryAcquire(1)
	}
	families, err := registry.Gather()
	for _, family := range families {
		fmt.Println(family.GetName(), len(family.GetMetric()))
	}
	fmt.Println(err)
	// Output:
	// sluice_limiter_leases_total 2
	// sluice_limiter_permits_available 1
	// sluice_limiter_permits_limit 1
	// sluice_limiter_permits_queued 1
	// <nil>
}

// A per-key limit has one series per count, however many keys there are.
func ExampleNewPartitions() {
	tenants := core.Must(partition.New(partition.Options[string, string]{
		Key: func(tenant string) string { return tenant },
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 20)) },
	}))
	registry := client.NewRegistry()
	registry.MustRegister(prometheus.NewPartitions(map[string]prometheus.Partitions{"tenants": tenants}))
	tenants.TryAcquire("a", 1)
	tenants.TryAcquire("b", 1)
	families, err := registry.Gather()
	for _, family := range families {
		fmt.Println(family.GetName(), len(family.GetMetric()))
	}
	fmt.Println(err)
	// Output:
	// sluice_partition_created_total 1
	// sluice_partition_dropped_total 1
	// sluice_partition_live 1
	// sluice_partition_overflowed_total 1
	// <nil>
}

func ExampleNewHTTP() {
	observer := prometheus.NewHTTP()
	registry := client.NewRegistry()
	registry.MustRegister(observer)
	limits := core.Must(httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Limiter: httplimit.Shared(core.Unlimited())},
		Observer: observer,
	}))
	limits.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	families, err := registry.Gather()
	for _, family := range families {
		fmt.Println(family.GetName())
	}
	fmt.Println(err)
	// Output:
	// sluice_http_active_request_leases
	// sluice_http_request_lease_duration_seconds
	// sluice_http_requests_total
	// <nil>
}

func ExampleNewGRPC() {
	observer := prometheus.NewGRPC() // the Observer of grpclimit.Options
	registry := client.NewRegistry()
	registry.MustRegister(observer)
	observer.Decided(context.Background(), "calls", httplimit.Acquired, 0)
	families, err := registry.Gather()
	fmt.Println(families[0].GetName(), err)
	// Output: sluice_rpc_calls_total <nil>
}

// The phases and the latencies of an adaptive limit, beside its limit.
func ExampleNewAdaptive() {
	changes := prometheus.NewAdaptive()
	limiter := core.Must(adaptive.New(adaptive.Options{Initial: 10, OnChange: changes.OnChange("api")}))
	registry := client.NewRegistry()
	registry.MustRegister(changes, prometheus.NewCollector(map[string]core.Reporter{"api": limiter}))
	limiter.Drop(limiter.TryAcquire(1))
	families, err := registry.Gather()
	fmt.Println(families[0].GetName(), families[0].GetMetric()[0].GetLabel()[0].GetValue(), err)
	// Output: sluice_adaptive_changes_total dropped <nil>
}
