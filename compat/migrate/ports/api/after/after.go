// Package after limits the clients of an API with httplimit.
package after

import (
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// New returns limits for clients: 2 requests a second each, 4 of them at once. Its Handler applies them.
func New() (*httplimit.Limits, error) {
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(2, 4)) },
	})
	if err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: clients}})
}
