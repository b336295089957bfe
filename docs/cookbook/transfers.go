package cookbook

import (
	"net/http"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// Uploads returns a client whose request bodies share a bandwidth limit. For 8 MiB/s, bandwidth is
// core.NewTokenBucket(ioreader.PerSecond(8 << 20)).
func Uploads(bandwidth core.Limiter) (*http.Client, error) {
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{Upload: httplimit.Shared(bandwidth)})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}

// Downloads serves files. Each user gets 1 MiB/s for all requests together, and all users together get
// 100 MiB/s.
func Downloads(files http.Handler) (http.Handler, error) {
	users, err := partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-User"), // set by a gateway, because clients choose its value
		New: func(string) (core.Limiter, error) { return core.NewTokenBucket(ioreader.PerSecond(1 << 20)) },
	})
	if err != nil {
		return nil, err
	}
	all, err := core.NewTokenBucket(ioreader.PerSecond(100 << 20))
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{
		Global:   &httplimit.Policy{Name: "all", Download: httplimit.Shared(all)},
		Policies: []httplimit.Policy{{Name: "user", Download: users}},
	})
	if err != nil {
		return nil, err
	}
	return limits.Handler(limits.Policy("user")(files)), nil
}
