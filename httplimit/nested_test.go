package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// hourly returns a bucket of 10 permits that come back in hours.
func hourly(t *testing.T) *core.TokenBucket {
	t.Helper()
	return core.Must(core.NewTokenBucket(core.Every(time.Hour, 10)))
}

// A rejection inside refunds the policies of the wrappers around if it is the response, and not if the handler has served
// the request without the part that was rejected.
func TestRejectionInsideRefundsOnlyItsOwnResponse(t *testing.T) {
	full := hourly(t)
	full.TryAcquire(10)
	limits := func() (outer *core.TokenBucket, l *httplimit.Limits, inner http.Handler) {
		outer = hourly(t)
		l = core.Must(httplimit.New(httplimit.Options{
			Global:   &httplimit.Policy{Limiter: httplimit.Shared(outer)},
			Policies: []httplimit.Policy{{Name: "part", Limiter: httplimit.Shared(full)}},
		}))
		return outer, l, l.Policy("part")(http.NotFoundHandler())
	}
	for name, c := range map[string]struct {
		handle func(inner http.Handler, w http.ResponseWriter, r *http.Request)
		status int
		left   int
	}{
		"the response": {http.Handler.ServeHTTP, http.StatusTooManyRequests, 10},
		"the response of a TimeoutHandler": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(inner, time.Minute, "late").ServeHTTP(w, r)
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
			outer, l, inner := limits()
			w := get(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handle(inner, w, r) })), "/")
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.left, outer.Available())
		})
	}
}
