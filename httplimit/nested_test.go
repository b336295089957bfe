package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// A rejection inside refunds the policies of the wrappers around it, whatever handlers and OnRejected respond, and whether
// or not the wrappers see the status.
func TestRejectionInsideRefundsWrappersAround(t *testing.T) {
	full := perMinute(t, 1)
	full.TryAcquire(1)
	outer := perMinute(t, 10)
	newLimits := func(h httplimit.Headers) *httplimit.Limits {
		return limits(t, httplimit.Options{
			Headers: h,
			Global:  &httplimit.Policy{Limiter: all(outer)},
			Policies: []httplimit.Policy{
				{Name: "part", Limiter: all(full)},
				{Name: "free", Limiter: all(core.Unlimited())},
				{Name: "elsewhere", Limiter: all(full), OnRejected: func(w http.ResponseWriter, r *http.Request, _ *httplimit.Rejection) {
					http.Redirect(w, r, "/busy", http.StatusSeeOther)
				}},
			},
		})
	}
	other := newLimits(httplimit.RetryAfterOnly)
	const rejected, served = http.StatusTooManyRequests, http.StatusOK
	for name, c := range map[string]struct {
		handle func(inner http.Handler, w http.ResponseWriter, r *http.Request)
		status int
	}{
		"the response": {http.Handler.ServeHTTP, rejected},
		"the response of a TimeoutHandler": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(inner, time.Minute, "late").ServeHTTP(w, r)
		}, rejected},
		"the response of other limits, and a later call that was granted": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.StripPrefix("/", other.Policy("part")(ok)).ServeHTTP(w, r)
			other.Policy("free")(nothing).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, nil)))
		}, rejected},
		"a redirect": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			other.Policy("elsewhere")(ok).ServeHTTP(w, r)
		}, http.StatusSeeOther},
		"a page without the part": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(served)
		}, served},
	} {
		for _, headers := range []httplimit.Headers{httplimit.RetryAfterOnly, httplimit.XRateLimit} {
			t.Run(name+", "+headers.String(), func(t *testing.T) {
				outer.Reset()
				l := newLimits(headers)
				inner := l.Policy("part")(http.NotFoundHandler())
				w := get(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handle(inner, w, r) })), "/")
				require.Equal(t, c.status, w.Code)
				require.Equal(t, 10, outer.Available())
			})
		}
	}
}

// A lease whose request was rejected further inside has been refunded. It holds nothing that could be settled.
func TestTheLeaseOfARequestThatWasRejectedInside(t *testing.T) {
	rate := perMinute(t, 10)
	l := limits(t, httplimit.Options{
		Global:   &httplimit.Policy{Limiter: all(rate), Cost: func(*http.Request) int { return 3 }},
		Policies: []httplimit.Policy{{Name: "no", Limiter: all(core.Blocked())}},
	})
	var lease core.Lease
	inner := l.Policy("no")(ok)
	get(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ = httplimit.LeaseFromContext(r.Context())
		inner.ServeHTTP(w, r)
	})), "/")
	require.Equal(t, 3, lease.Settle(5).Permits())
	lease.Refund()
	lease.Release()
	require.Equal(t, 10, rate.Available())
}
