package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

const (
	inFlight  = 50      // concurrent requests of all clients
	waiting   = 100     // requests that may wait for those, for at most a second
	apiRate   = 5       // requests per second and client, with bursts of 10
	apiBurst  = 10      //
	failures  = 3       // wrong passwords per minute and client
	bandwidth = 8 << 20 // bytes per second for all downloads together
	clients   = 100_000 // clients with their own limiter; all others share one
)

// newLimits returns the policies global, api, login and download.
func newLimits(ip httplimit.IPOptions, logger *slog.Logger) (*httplimit.Limits, error) {
	all, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "all", PermitLimit: inFlight, QueueLimit: waiting, QueueOrder: core.NewestFirst,
	})
	if err != nil {
		return nil, err
	}
	api, err := byClient(ip, "api", func() (core.Limiter, error) {
		return core.NewTokenBucket(core.TokenBucketOptions{
			Name: "api", TokenLimit: apiBurst, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second / apiRate,
		})
	})
	login, err2 := byClient(ip, "login", func() (core.Limiter, error) {
		return core.NewSlidingWindow(core.SlidingWindowOptions{
			Name: "login", PermitLimit: failures, Window: time.Minute, SegmentsPerWindow: 6,
		})
	})
	bytes, err3 := core.NewTokenBucket(ioreader.PerSecond(bandwidth))
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Options{
		// The client is not the cause, so the status is 503 and not 429. The newest request is served first,
		// because a client that has waited long has probably disconnected.
		Global: &httplimit.Policy{Name: "all", Limiter: httplimit.Shared(all), MaxWait: time.Second, Status: http.StatusServiceUnavailable},
		Policies: []httplimit.Policy{
			{Name: "api", Limiter: api},
			{Name: "login", Limiter: login, Refund: func(_ *http.Request, status int) bool {
				return status < 400 // only failures count
			}},
			{Name: "download", Download: httplimit.Shared(bytes)},
		},
		Headers:     httplimit.Draft11,
		ProblemJSON: true,
		Logger:      logger,
	})
}

// byClient returns a limiter per client. Clients beyond the maximum share one limiter, so that
// a client that uses many addresses cannot fill the memory.
func byClient(ip httplimit.IPOptions, name string, one func() (core.Limiter, error)) (httplimit.Limiter, error) {
	return partition.New(partition.Options[*http.Request, netip.Prefix]{
		Name:          name,
		Key:           httplimit.ByIP(ip),
		New:           func(netip.Prefix) (core.Limiter, error) { return one() },
		MaxPartitions: clients,
		Group:         func(netip.Prefix) netip.Prefix { return netip.Prefix{} },
	})
}
