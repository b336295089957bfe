package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// A rejection inside refunds the policies of the wrappers around if it is the response, and not if the handler has served
// the request without the part that was rejected.
func TestRejectionInsideRefundsOnlyItsOwnResponse(t *testing.T) {
	full := perMinute(t, 1)
	full.TryAcquire(1)
	outer := perMinute(t, 10)
	newLimits := func() *httplimit.Limits {
		return limits(t, httplimit.Options{
			Global:   &httplimit.Policy{Limiter: all(outer)},
			Policies: []httplimit.Policy{{Name: "part", Limiter: all(full)}, {Name: "free", Limiter: all(core.Unlimited())}},
		})
	}
	l, other := newLimits(), newLimits()
	for name, c := range map[string]struct {
		handle func(inner http.Handler, w http.ResponseWriter, r *http.Request)
		status int
		left   int
	}{
		"the response": {http.Handler.ServeHTTP, http.StatusTooManyRequests, 10},
		"the response of a TimeoutHandler": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(inner, time.Minute, "late").ServeHTTP(w, r)
		}, http.StatusTooManyRequests, 10},
		"the response of other limits, and a later call that was granted": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.StripPrefix("/", other.Policy("part")(ok)).ServeHTTP(w, r)
			other.Policy("free")(nothing).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, nil)))
		}, http.StatusTooManyRequests, 10},
		"an optional part": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			part := httptest.NewRecorder()
			inner.ServeHTTP(part, r)
			assert.Equal(t, http.StatusTooManyRequests, part.Code)
			w.WriteHeader(http.StatusOK)
		}, http.StatusOK, 9},
		"an optional part, and a header of its own": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(httptest.NewRecorder(), r)
			w.Header().Set("Cache-Control", "no-store")
		}, http.StatusOK, 9},
	} {
		t.Run(name, func(t *testing.T) {
			outer.Reset()
			inner := l.Policy("part")(http.NotFoundHandler())
			w := get(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handle(inner, w, r) })), "/")
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.left, outer.Available())
		})
	}
}
