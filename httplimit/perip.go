package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
)

// PerIP returns a middleware that lets each client send burst requests at once, and perSecond a
// second in the long run, both at least 1. What a client sends beyond that is answered with 429 Too
// Many Requests and Retry-After.
//
//	http.ListenAndServe(addr, httplimit.PerIP(10, 20)(mux))
//
// A client is its connection's IPv4 address, or its /64 of IPv6: behind a proxy all requests come
// from the proxy's address and share one limit. There, and for anything else, use [New] with a
// policy whose key is [ByIP]; PerIP is short for that. It keeps the limits of up to 100,000 clients;
// those that find no room share one. Each call returns a limit of its own. PerIP panics if a number
// is out of range.
func PerIP(perSecond, burst int) func(http.Handler) http.Handler {
	bucket := func(netip.Prefix) (core.Limiter, error) { return core.NewTokenBucket(core.PerSecond(perSecond, burst)) }
	others, err := bucket(netip.Prefix{})
	if err != nil {
		panic(err)
	}
	clients, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: ByIP(IPOptions{}), New: bucket, MaxPartitions: 100_000, Overflow: others,
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
