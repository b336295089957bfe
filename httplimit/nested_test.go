package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// instead is a handler's writer that sends an older page in place of a rejection.
type instead struct {
	http.ResponseWriter

	older bool
}

func (w *instead) WriteHeader(status int) {
	if w.older = status == http.StatusTooManyRequests; w.older {
		status = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *instead) Write(p []byte) (int, error) {
	if w.older {
		p = []byte("older")
	}
	return w.ResponseWriter.Write(p)
}

// A rejection inside refunds the policies of the wrappers around it, whatever handlers are in between. A wrapper that sees
// that its handler has served the request nevertheless keeps its permits.
func TestRejectionInsideRefundsWrappersAround(t *testing.T) {
	full := perMinute(t, 1)
	full.TryAcquire(1)
	outer := perMinute(t, 10)
	newLimits := func(h httplimit.Headers) *httplimit.Limits {
		return limits(t, httplimit.Options{
			Headers:  h,
			Global:   &httplimit.Policy{Limiter: all(outer)},
			Policies: []httplimit.Policy{{Name: "part", Limiter: all(full)}, {Name: "free", Limiter: all(core.Unlimited())}},
		})
	}
	other := newLimits(httplimit.RetryAfterOnly)
	const none, rejected, served = 10, http.StatusTooManyRequests, http.StatusOK
	for name, c := range map[string]struct {
		handle     func(inner http.Handler, w http.ResponseWriter, r *http.Request)
		status     int
		left, seen int // permits that are left, without and with Headers
	}{
		"the response": {http.Handler.ServeHTTP, rejected, none, none},
		"the response of a TimeoutHandler": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(inner, time.Minute, "late").ServeHTTP(w, r)
		}, rejected, none, none},
		"a response that is recorded and replayed": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			record := httptest.NewRecorder()
			inner.ServeHTTP(record, r)
			for name, values := range record.Header() {
				for _, value := range values {
					w.Header().Add(name, value)
				}
			}
			w.WriteHeader(record.Code)
			_, _ = io.Copy(w, record.Body)
		}, rejected, none, none},
		"a page of its own with the status": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			record := httptest.NewRecorder()
			inner.ServeHTTP(record, r)
			http.Error(w, "come back later", record.Code)
		}, rejected, none, none},
		"the response of other limits, and a later call that was granted": {func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.StripPrefix("/", other.Policy("part")(ok)).ServeHTTP(w, r)
			other.Policy("free")(nothing).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, nil)))
		}, rejected, none, none},
		"an older page": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(&instead{ResponseWriter: w}, r)
		}, served, none, 9},
		"a page without the part": {func(inner http.Handler, w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(served)
		}, served, none, 9},
	} {
		for _, headers := range []httplimit.Headers{httplimit.RetryAfterOnly, httplimit.XRateLimit} {
			t.Run(name+", "+headers.String(), func(t *testing.T) {
				outer.Reset()
				l := newLimits(headers)
				inner := l.Policy("part")(http.NotFoundHandler())
				w := get(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handle(inner, w, r) })), "/")
				require.Equal(t, c.status, w.Code)
				if headers == httplimit.RetryAfterOnly {
					require.Equal(t, c.left, outer.Available())
				} else {
					require.Equal(t, c.seen, outer.Available())
				}
			})
		}
	}
}
