// Package after limits the clients of a server with httplimit.
package after

import (
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Handler limits each client to 10 requests a second.
func Handler(next http.Handler) (http.Handler, error) {
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(10, 10)) },
	})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: clients}})
	if err != nil {
		return nil, err
	}
	return limits.Handler(next), nil
}
