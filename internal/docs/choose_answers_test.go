package docs_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
	"github.com/sluice-go/sluice/worker"
)

func unknown() (*adaptive.Concurrency, error) {
	return adaptive.New(adaptive.Options{Max: 500, QueueLimit: 100})
}

func both(rate, concurrency core.Limiter) (core.Limiter, error) {
	return core.Chain(concurrency, rate) // all or nothing
}

func perCustomer() (*partition.Keyed[*http.Request, string], error) {
	return partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"), // checked by a gateway
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
	})
}

func perPlan(planOf func(customer string) spec.Limits) (*partition.Keyed[*http.Request, string], error) {
	return partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"),
		Update: func(customer string, now core.Limiter) (core.Limiter, error) {
			return planOf(customer).Apply(now, customer)
		},
	})
}

// monthly is a monthly budget of tokens in the customer's time zone. Each month starts on the 15th.
func monthly(customer *time.Location) (*core.FixedWindow, error) {
	return core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 100_000, Calendar: core.Monthly(15, customer)})
}

func policies(all core.Limiter, customers httplimit.Limiter) (*httplimit.Limits, error) {
	return httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Limiter: httplimit.Shared(all), Status: 503}, // one limit for all requests
		Policies: []httplimit.Policy{{Name: "api", Limiter: customers}},          // one limit per customer
	})
}

func eight() (*worker.Pool, error) {
	return worker.New(worker.Options{Limiter: core.Unlimited(), Workers: 8})
}

// uploads limits the uploads of each user to 1 MiB/s in total.
func uploads(user func(*http.Request) string) (*httplimit.Limits, error) {
	users, err := partition.New(partition.Options[*http.Request, string]{
		Key: user,
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(ioreader.PerSecond(1 << 20)) },
	})
	if err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{Name: "uploads", Upload: users}}})
}

// weighted runs tasks on a machine that has room for 8 heavy tasks, 100 light ones, or a mix.
func weighted(ctx context.Context, heavy, light []worker.Task) error {
	room, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 200}) // 8 × 25 or 100 × 2
	if err != nil {
		return err
	}
	pool, err := worker.New(worker.Options{Limiter: room})
	if err != nil {
		return err
	}
	group := pool.Group(ctx)
	for _, task := range heavy {
		group.GoN(25, task)
	}
	for _, task := range light {
		group.GoN(2, task)
	}
	return errors.Join(group.Wait(), pool.Close(ctx))
}
