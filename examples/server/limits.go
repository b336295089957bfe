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
	atOnce    = 50      // requests of all clients
	waiting   = 100     // that may wait for those, for a second at most
	apiRate   = 5       // requests of a client per second, 10 in a burst
	apiBurst  = 10      //
	failures  = 3       // wrong passwords of a client in a minute
	bandwidth = 8 << 20 // bytes per second, of all downloads together
	clients   = 100_000 // that have partitions of their own; the others share one
)

// newLimits makes the policies: the global one, api, login and download.
func newLimits(ip httplimit.IPOptions, logger *slog.Logger) (*httplimit.Limits, error) {
	all, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
		Name: "all", PermitLimit: atOnce, QueueLimit: waiting, QueueOrder: core.NewestFirst,
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
		// Not this client's own doing, so 503 and not 429. The newest are served first: a client
		// that has waited long has probably gone.
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

// byClient is a limiter for each client. Clients that find no room share one, so that
// nobody can fill the memory by coming from ever new addresses.
func byClient(ip httplimit.IPOptions, name string, one func() (core.Limiter, error)) (httplimit.Limiter, error) {
	overflow, err := one()
	if err != nil {
		return nil, err
	}
	return partition.New(partition.Options[*http.Request, netip.Prefix]{
		Name:          name,
		Key:           httplimit.ByIP(ip),
		New:           func(netip.Prefix) (core.Limiter, error) { return one() },
		MaxPartitions: clients,
		Overflow:      overflow,
	})
}
