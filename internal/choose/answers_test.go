package choose_test

import (
	"net/http"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/worker"
)

func unknown() (*adaptive.Concurrency, error) {
	return adaptive.New(adaptive.Options{Max: 500, QueueLimit: 100})
}

func both(rate, atOnce core.Limiter) (core.Limiter, error) {
	return core.Chain(atOnce, rate) // all or nothing
}

func perCustomer() (*partition.Keyed[*http.Request, string], error) {
	return partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"),
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
	})
}

func policies(all core.Limiter, customers httplimit.Limiter) (*httplimit.Limits, error) {
	return httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Limiter: httplimit.Shared(all), Status: 503}, // one limit for all requests
		Policies: []httplimit.Policy{{Name: "api", Limiter: customers}},          // one for each key
	})
}

func eight() (*worker.Pool, error) {
	return worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8})
}
