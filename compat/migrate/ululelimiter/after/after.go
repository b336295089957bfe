// Package after limits the clients of a server with httplimit.
package after

import (
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Handler limits each client to 10 requests a minute.
func Handler(next http.Handler) (http.Handler, error) {
	rate, err := spec.Parse("fixed 10/min")
	if err != nil {
		return nil, err
	}
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{V6Bits: 128}),
		New: func(netip.Prefix) (core.Limiter, error) { return rate.New("") },
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
