package compat_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// Over HTTP/1 and HTTP/2 the writer has the methods of net/http's, and ReadFrom also over HTTP/2 if it is wrapped.
// Writers of chi's around it and inside of it see the same status and the same bytes.
func TestWritersAmongChis(t *testing.T) {
	bytes := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1 << 20, QueueLimit: 1 << 20}))
	for _, http2 := range []bool{false, true} {
		for name, p := range map[string]httplimit.Policy{
			"plain":    {Limiter: all(core.Unlimited())},
			"refund":   {Limiter: all(core.Unlimited()), Refund: func(*http.Request, int) bool { return false }},
			"download": {Download: all(bytes)},
		} {
			t.Run(name, func(t *testing.T) {
				var outer, inner middleware.WrapResponseWriter
				around := func(seen *middleware.WrapResponseWriter, next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						*seen = middleware.NewWrapResponseWriter(w, r.ProtoMajor)
						next.ServeHTTP(*seen, r)
					})
				}
				methods := func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, flusher := w.(http.Flusher)
						_, hijacker := w.(http.Hijacker)
						_, readerFrom := w.(io.ReaderFrom)
						_, pusher := w.(http.Pusher)
						assert.Equal(t, http2, r.ProtoMajor == 2)
						assert.Equal(t, []bool{true, !http2, !http2 || name != "plain", http2}, []bool{flusher, hijacker, readerFrom, pusher})
						next.ServeHTTP(w, r)
					})
				}
				talk := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusCreated)
					_, err := io.Copy(w, strings.NewReader("hello "))
					assert.NoError(t, err)
					_, err = io.WriteString(w, "world")
					assert.NoError(t, err)
				})
				l := limits(t, httplimit.Options{Global: &p})
				s := httptest.NewUnstartedServer(l.Handler(methods(around(&outer, l.Handler(around(&inner, talk))))))
				s.EnableHTTP2 = http2
				s.StartTLS()
				defer s.Close()
				response, err := s.Client().Get(s.URL)
				require.NoError(t, err)
				body, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				s.Close()
				require.Equal(t, "hello world", string(body))
				for _, w := range []middleware.WrapResponseWriter{outer, inner} {
					require.Equal(t, http.StatusCreated, w.Status())
					require.Equal(t, len(body), w.BytesWritten())
				}
			})
		}
	}
}
