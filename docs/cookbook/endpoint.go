package cookbook

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Exports allows each customer 10 exports an hour and one at a time. It runs at most 4 exports for all
// customers together.
func Exports(export http.Handler) (http.Handler, error) {
	customers, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"), // checked by a gateway, because clients choose its value
		New: func(string) (core.Limiter, error) {
			hourly, err1 := core.NewTokenBucket(core.Every(6*time.Minute, 10))
			one, err2 := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			return core.Chain(one, hourly) // all or nothing
		},
	})
	if err != nil {
		return nil, err
	}
	four, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 20})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Policies: []httplimit.Policy{
			{Name: "customer", Limiter: customers},
			{Name: "all", Limiter: httplimit.Shared(four), Status: 503, MaxWait: 5 * time.Second},
		},
	})
	if err != nil {
		return nil, err
	}
	return limits.Policy("customer", "all")(export), nil
}
