package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// What people print is a line that they can read.
func TestStrings(t *testing.T) {
	api, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "api", PermitLimit: 3})
	require.NoError(t, err)
	rate := bucket(t, core.PerSecond(20, 5))
	for want, v := range map[string]any{
		"lease of 2 permits of \"api\"":                               api.TryAcquire(2),
		"lease of 0 permits of \"api\"":                               api.TryAcquire(0),
		"lease of 1 permit":                                           core.Grant(1, nil),
		"no lease: rejected by \"api\": permits exhausted":            api.TryAcquire(2),
		"no lease: negative permits":                                  api.TryAcquire(-2),
		"no lease: rejected":                                          core.Lease{},
		"no lease: 4 permits are more than the limit of 3 of \"api\"": api.TryAcquire(4),
	} {
		require.Equal(t, want, fmt.Sprint(v))
	}
	mine := &stranger{Limiter: api}
	fixedDay := fixed(t, core.FixedWindowOptions{PermitLimit: 7, Window: 24 * time.Hour})
	for want, l := range map[string]core.Limiter{
		`concurrency limiter "api": 1 of 3 available, 0 queued, 2 granted, 1 rejected`:                             api,
		"token bucket of 1 per 50ms: 5 of 5 available, 0 queued, 0 granted, 0 rejected":                            rate,
		"fixed window of 24h0m0s: 7 of 7 available, 0 queued, 0 granted, 0 rejected":                               fixedDay,
		`token bucket of 1 per 50ms: 5 of 5 available, 0 queued, 0 granted, 0 rejected, refusing with "slow down"`: core.WithReason(rate, "slow down"),
		"*core_test.stranger: 1 available, refusing with \"no\"":                                                   core.WithReason(mine, "no"),
		`no limiter, refusing with "why"`:                                                                          core.WithReason(nil, "why"),
		"chain of 2: 1 of 3 available, 0 queued, 0 granted, 0 rejected":                                            chain(t, api, rate),
	} {
		require.Equal(t, want, fmt.Sprint(l))
	}
	require.Contains(t, fmt.Sprint(core.Unlimited()), "unlimited: ")
}
