package cookbook

import (
	"net/http"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// Graceful finds out how many concurrent requests the server can handle, and admits that many. Up to 200
// more wait for at most a second, newest first, because the callers that have waited longest are the
// first to give up. The rest get a 503 immediately.
func Graceful(server http.Handler) (http.Handler, error) {
	limiter, err := adaptive.New(adaptive.Options{Max: 1000, QueueLimit: 200, QueueOrder: core.NewestFirst})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Global: &httplimit.Policy{
			Limiter: httplimit.Shared(limiter),
			Status:  http.StatusServiceUnavailable,
			MaxWait: time.Second,
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	if err != nil {
		return nil, err
	}
	return limits.Handler(server), nil
}
