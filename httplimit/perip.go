package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// PerIP returns middleware that lets each client send burst requests at once, and perSecond requests
// a second in the long run. Both must be at least 1. Further requests get a 429 Too Many Requests with
// a Retry-After header.
//
//	http.ListenAndServe(addr, httplimit.PerIP(10, 20)(mux))
//
// PerIP identifies a client by the address of its connection: an IPv4 address, or an IPv6 /64. Behind
// a proxy all requests come from the proxy's address and share one limit. In that case, and for any
// other limit, use [New] with a policy whose key is [ByIP]; PerIP is a shorthand for that. It keeps
// limiters for up to 100,000 clients; all other clients share one. Each call of PerIP returns
// independent limits. PerIP panics if a number is out of range.
func PerIP(perSecond, burst int) func(http.Handler) http.Handler {
	bucket := func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(perSecond, burst)) }
	if _, err := bucket(netip.Prefix{}); err != nil {
		panic(err) // now, and not at the first request
	}
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: ByIP(IPOptions{}), New: bucket, MaxPartitions: 100_000,
		Group: func(netip.Prefix) netip.Prefix { return netip.Prefix{} },
	})
	if err != nil {
		panic(err)
	}
	limits, err := New(Options{Global: &Policy{Name: "per-ip", Limiter: clients}})
	if err != nil {
		panic(err)
	}
	return limits.Handler
}
