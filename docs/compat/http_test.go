package compat_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/quick"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

func all(l core.Limiter) httplimit.Limiter { return partition.Shared[*http.Request](l) }

func atOnce(t *testing.T, permits int) *core.ConcurrencyLimiter {
	t.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits}))
}

func limits(t *testing.T, o httplimit.Options) *httplimit.Limits {
	t.Helper()
	l, err := httplimit.New(o)
	require.NoError(t, err)
	return l
}

func get(t *testing.T, url string) (status int, header http.Header, body string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header, string(b)
}

// chi is a router that people use: it takes middlewares, and it is no http.ServeMux.
func TestChi(t *testing.T) {
	global, api := atOnce(t, 3), atOnce(t, 2)
	l := limits(t, httplimit.Options{
		Global:   &httplimit.Policy{Limiter: all(global), Status: http.StatusServiceUnavailable},
		Policies: []httplimit.Policy{{Name: "api", Limiter: all(api)}, {Name: "none", Limiter: all(closed(t))}},
		Headers:  httplimit.Draft11,
	})
	r := chi.NewRouter()
	r.Use(middleware.RequestID)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		assert.Equal(t, 3, global.Available(), "outside of all limits")
		assert.Empty(t, w.Header().Get("RateLimit"))
	})
	limited := r.With(l.Handler, middleware.Recoverer)
	left := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, chi.URLParam(r, "id"))
		assert.Equal(t, "g", w.Header().Get("Ratelimit")[1:2])
		assert.Equal(t, 2, global.Available())
	}
	limited.Get("/", left)
	limited.With(l.Policy("api")).Get("/api/{id}", func(w http.ResponseWriter, r *http.Request) {
		left(w, r)
		assert.Equal(t, 1, api.Available())
	})
	limited.With(l.Policy("none")).Get("/none", left)
	limited.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("boom") })
	r.NotFound(l.Handler(http.NotFoundHandler()).ServeHTTP)
	s := httptest.NewServer(r)
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()

	for path, want := range map[string]int{
		"/": 200, "/api/7": 200, "/none": 503, "/panic": 500, "/healthz": 200, "/missing": 404,
	} {
		status, header, body := get(t, s.URL+path)
		require.Equal(t, want, status, path)
		switch path {
		case "/api/7":
			require.Equal(t, "7", body)
			require.Equal(t, `"global";q=3;qu="concurrent-requests", "api";q=2;qu="concurrent-requests"`, header.Get("RateLimit-Policy"))
		case "/missing":
			require.Equal(t, `"global";r=2`, header.Get("RateLimit"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
	s.Close()
	require.Equal(t, 3, global.Available())
	require.Equal(t, 2, api.Available())
}

func closed(t *testing.T) core.Limiter {
	t.Helper()
	l := atOnce(t, 1)
	require.NoError(t, l.Close())
	return l
}

// gin asserts that its ResponseWriter is an http.CloseNotifier, without asking.
func TestGinStreams(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	free := all(core.Unlimited())
	for name, o := range map[string]httplimit.Options{
		"plain":    {Global: &httplimit.Policy{Limiter: free}},
		"headers":  {Global: &httplimit.Policy{Limiter: free}, Headers: httplimit.XRateLimit},
		"refund":   {Global: &httplimit.Policy{Limiter: free, Refund: func(*http.Request, int) bool { return false }}},
		"settle":   {Global: &httplimit.Policy{Limiter: free, Settle: func(*http.Request, int, http.Header) int { return 1 }}},
		"download": {Global: &httplimit.Policy{Download: free}},
	} {
		t.Run(name, func(t *testing.T) {
			router := gin.New()
			router.GET("/", func(c *gin.Context) {
				left := 3
				c.Stream(func(w io.Writer) bool {
					_, _ = io.WriteString(w, "x")
					left--
					return left > 0
				})
			})
			s := httptest.NewServer(limits(t, o).Handler(router))
			defer s.Close()
			defer http.DefaultClient.CloseIdleConnections()
			status, _, body := get(t, s.URL)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "xxx", body)
		})
	}
}

// What Draft11 writes is what a parser of structured fields reads.
func TestStructuredFields(t *testing.T) {
	lists := func(limit, remaining int, window, reset time.Duration, granted bool) bool {
		m := []core.Metadata{
			core.PermitLimit.With(limit), core.Remaining.With(remaining),
			core.Window.With(window), core.ResetAfter.With(reset), core.RetryAfter.With(reset),
		}
		lease := core.Reject(m...)
		if granted {
			lease = core.Grant(1, nil, m...)
		}
		l := limits(t, httplimit.Options{
			Headers:  httplimit.Draft11,
			Global:   &httplimit.Policy{Name: "A-z_0.9", Limiter: all(answers{lease})},
			Policies: []httplimit.Policy{{Name: "two", Limiter: all(atOnce(t, 2))}},
		})
		w := httptest.NewRecorder()
		l.Handler(l.Policy("two")(http.NotFoundHandler())).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		for field, integers := range map[string][]string{"RateLimit-Policy": {"q", "w"}, "RateLimit": {"r", "t"}} {
			list, err := httpsfv.UnmarshalList(w.Header().Values(field))
			if !assert.NoError(t, err, w.Header()) || !assert.NotEmpty(t, list) {
				return false
			}
			first, ok := list[0].(httpsfv.Item)
			if !assert.True(t, ok) || !assert.Equal(t, "A-z_0.9", first.Value) {
				return false
			}
			for _, name := range integers {
				v, ok := first.Params.Get(name)
				if n, isInteger := v.(int64); ok && (!isInteger || n < 0) {
					t.Errorf("%s is %v", name, v)
				}
			}
		}
		return !t.Failed()
	}
	require.NoError(t, quick.Check(func(limit, remaining uint, window, reset time.Duration, granted bool) bool {
		return lists(int(limit>>1), int(remaining>>1), max(window, 0), max(reset, 0), granted)
	}, nil))
}

// answers gives one lease to all.
type answers struct{ lease core.Lease }

func (a answers) TryAcquire(int) core.Lease                        { return a.lease }
func (a answers) Acquire(context.Context, int) (core.Lease, error) { return a.lease, a.lease.Err() }
func (a answers) Available() int                                   { return 0 }
