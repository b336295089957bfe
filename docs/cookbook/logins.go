package cookbook

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Logins allows each address 5 failed logins in 15 minutes. Successful logins do not count.
func Logins(login http.Handler) (http.Handler, error) {
	addresses, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}), // behind a proxy, list its address in Trusted
		New: func(netip.Prefix) (core.Limiter, error) {
			return core.NewSlidingWindow(core.SlidingWindowOptions{
				PermitLimit: 5, Window: 15 * time.Minute, SegmentsPerWindow: 15,
			})
		},
		MaxPartitions: 100_000, // when it is full, new addresses are rejected
	})
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{
		Name:    "login",
		Limiter: addresses,
		Refund:  func(_ *http.Request, status int) bool { return status != http.StatusUnauthorized },
	}})
	if err != nil {
		return nil, err
	}
	return limits.Handler(login), nil
}
