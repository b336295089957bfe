package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// What a request through one policy costs beyond the handler and the limiter.
func BenchmarkHandler(b *testing.B) {
	r, w := served(b), &bare{}
	for _, c := range []struct {
		name string
		l    httplimit.Limiter
	}{{"shared", all(core.Unlimited())}, {"ip", byIP(b)}} {
		l, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: c.l}})
		require.NoError(b, err)
		run := func(name string, h http.Handler) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					h.ServeHTTP(w, r)
				}
			})
		}
		mux := http.NewServeMux()
		mux.Handle("/index.html", nothing)
		run("bare", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, err := c.l.Acquire(r.Context(), r, 1)
			if err != nil {
				return
			}
			defer lease.Release()
			nothing.ServeHTTP(w, r)
		}))
		run("bound", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, err := partition.For(c.l, r).Acquire(r.Context(), 1)
			if err != nil {
				return
			}
			defer lease.Release()
			nothing.ServeHTTP(w, r)
		}))
		run("limited", l.Handler(nothing))
		run("mux", mux)
		run("limited mux", l.Handler(mux))
	}
}

// BenchmarkRejection is a rejected request over TLS, whose connection is kept: a POST, whose body is read and
// discarded first, costs little more than a GET.
func BenchmarkRejection(b *testing.B) {
	none, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1})
	if err != nil {
		b.Fatal(err)
	}
	none.TryAcquire(1)
	l, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: httplimit.Shared(none)}})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewTLSServer(l.Handler(http.NotFoundHandler()))
	defer s.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b.Run("method="+method, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var body io.Reader
				if method == http.MethodPost {
					body = strings.NewReader(strings.Repeat("x", 1000))
				}
				r, err := http.NewRequestWithContext(b.Context(), method, s.URL, body)
				if err != nil {
					b.Fatal(err)
				}
				response, err := s.Client().Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusTooManyRequests || response.Close {
					b.Fatal(response.Status, response.Close)
				}
			}
		})
	}
}
