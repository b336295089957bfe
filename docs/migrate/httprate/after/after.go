// Package after limits the clients of a server with httplimit.
package after

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Handler limits each client to 100 requests a minute.
func Handler(next http.Handler) (http.Handler, error) {
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: newLimiter,
	})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Global:  &httplimit.Policy{Limiter: clients},
		Headers: httplimit.XRateLimit,
	})
	if err != nil {
		return nil, err
	}
	return limits.Handler(next), nil
}

func newLimiter(netip.Prefix) (core.Limiter, error) {
	return core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 100, Window: time.Minute, SegmentsPerWindow: 12})
}
