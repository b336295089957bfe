// Package after limits the users of an API as ASP.NET Core does, with httplimit.
package after

import (
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Handler limits each API key to 10 requests a second, 100 of them at once, and lets 5 more wait.
func Handler(search http.Handler) (http.Handler, error) {
	keys, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Api-Key"),
		New: newBucket,
	})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Policies: []httplimit.Policy{{Name: "api", Limiter: keys, MaxWait: -1}},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /search", limits.Policy("api")(search))
	return mux, nil
}

func newBucket(string) (core.Limiter, error) {
	return core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit:          100,
		TokensPerPeriod:     10,
		ReplenishmentPeriod: time.Second,
		QueueLimit:          5,
	})
}
