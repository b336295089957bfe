package cookbook

import (
	"net/http"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// Graceful serves as many requests at once as the server can work on, which it finds out. More wait,
// for a second at most and the newest first, since callers that have waited longest have given up.
// The rest get 503 at once.
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
