package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// served is a request as net/http's server makes them: its context is made of several.
func served(t *testing.T) *http.Request {
	t.Helper()
	ctx := context.WithValue(t.Context(), http.ServerContextKey, new(http.Server))
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, new(net.TCPAddr))
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithCancel(ctx)
	t.Cleanup(cancel)
	return httptest.NewRequest(http.MethodGet, "/index.html", nil).WithContext(ctx)
}

// nothing is a handler that does nothing.
var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// byIP is a keyed limiter that grants all.
func byIP(t *testing.T) httplimit.Limiter {
	t.Helper()
	l := core.Must(partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) {
			return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 1 << 20, TokensPerPeriod: 1 << 20, ReplenishmentPeriod: 1})
		},
	}))
	return l
}

// A request under a policy costs one allocation: its copy, with what it was granted.
func TestAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	r, w := served(t), &bare{}
	for name, l := range map[string]httplimit.Limiter{"shared": all(core.Unlimited()), "by ip": byIP(t)} {
		lim := limits(t, httplimit.Options{
			Global:   &httplimit.Policy{Limiter: l},
			Policies: []httplimit.Policy{{Name: "p", Limiter: l}},
		})
		h := lim.Handler(nothing)
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }), 1.0, name)
	}
	h := limits(t, httplimit.Options{Policies: []httplimit.Policy{{Name: "p", Limiter: byIP(t)}}}).Policy("p")(nothing)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }), 1.0)

	key := httplimit.ByIP(httplimit.IPOptions{Trusted: prefixes("10.0.0.0/8")})
	proxied := &http.Request{RemoteAddr: "10.0.0.1:1234", Header: http.Header{"X-Forwarded-For": {"8.8.8.8, 10.0.0.2"}}}
	require.Zero(t, testing.AllocsPerRun(1000, func() { key(proxied) }))

	// One that could wait has a context for that, which is not made ready until it does.
	h = limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: byIP(t), MaxWait: time.Second}}).Handler(nothing)
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }), 2.0)
}
