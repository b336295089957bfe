package settle_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/docs/settle"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server and a client take an estimate of 10 tokens and settle the 3 that the stream has used. A
// window of an hour gives nothing back by itself.
func TestStream(t *testing.T) {
	accounts := perAccount(t, 10)
	tokens := settle.TokensPerMinute(func(*http.Request) int { return 10 }, accounts)
	limits, err := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{tokens}})
	require.NoError(t, err)
	server := httptest.NewServer(limits.Policy("tokens")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		settle.Stream(w, r, slices.Values([]string{"one two ", "three"}))
	})))
	defer server.Close()
	own := window(t, 10)
	client, err := settle.Client(own)
	require.NoError(t, err)
	defer client.CloseIdleConnections()

	status, body := get(t, client, server.URL)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "one two three", body)
	require.Equal(t, 7, own.Available())
	server.Close() // waits for the handler
	require.Equal(t, 7, available(t, accounts))

	require.True(t, settle.LetIn(accounts, "ann"))
	require.Equal(t, 10, available(t, accounts))
	require.False(t, settle.LetIn(accounts, "bob"))
}

// A policy that only watches lets an account pass that has no tokens.
func TestWatch(t *testing.T) {
	accounts := perAccount(t, 1)
	tokens := settle.TokensPerMinute(func(*http.Request) int { return 10 }, accounts)
	limits, err := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{tokens}})
	require.NoError(t, err)
	require.NoError(t, settle.Watch(limits, httplimit.Options{Logger: slog.New(slog.DiscardHandler)}, tokens))
	served := false
	handler := limits.Policy("tokens")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.True(t, served)
}

func TestExport(t *testing.T) {
	bucket := core.Must(core.NewTokenBucket(core.Every(time.Hour, 200)))
	require.NoError(t, settle.Export(bucket, slices.Values([]int{60, 60, 30})))
	require.Equal(t, 50, bucket.Available())
	require.ErrorIs(t, settle.Export(bucket, slices.Values([]int{1})), core.ErrRejected)
}

// An export is paid with a credit like with any other limiter, also in a chain.
func TestCredit(t *testing.T) {
	credit := new(settle.Credit)
	credit.Pay(200)
	slots := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1000}))
	both := core.Must(core.Chain(slots, credit))
	require.NoError(t, settle.Export(both, slices.Values([]int{60, 60, 30})))
	require.Equal(t, 50, credit.Available())
	require.Equal(t, 1000, slots.Available())
	require.ErrorIs(t, settle.Export(both, slices.Values([]int{1})), core.ErrRejected)
	credit.Pay(50)
	require.NoError(t, settle.Export(credit, slices.Values([]int{300})))
	require.Zero(t, credit.Available())
	_, err := credit.Acquire(t.Context(), 0)
	require.EqualError(t, err, "core: rejected")
	lease, err := credit.Acquire(t.Context(), -1)
	require.Equal(t, core.ErrNegativePermits, err)
	require.False(t, lease.Acquired())
}

func window(t *testing.T, limit int) *core.SlidingWindow {
	t.Helper()
	w := core.Must(core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: limit, Window: time.Hour, SegmentsPerWindow: 60}))
	return w
}

// perAccount returns a window for each account. All requests are ann's.
func perAccount(t *testing.T, limit int) *partition.Keyed[*http.Request, string] {
	t.Helper()
	accounts, err := partition.New(partition.Options[*http.Request, string]{
		Key: func(*http.Request) string { return "ann" },
		New: func(string) (core.Limiter, error) { return window(t, limit), nil },

		IdleTimeout: time.Hour,
	})
	require.NoError(t, err)
	return accounts
}

func available(t *testing.T, accounts *partition.Keyed[*http.Request, string]) int {
	t.Helper()
	limiter, ok := accounts.Get("ann")
	require.True(t, ok)
	w, ok := limiter.(*core.SlidingWindow)
	require.True(t, ok)
	return w.Available()
}

func get(t *testing.T, client *http.Client, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	var b strings.Builder
	_, err = io.Copy(&b, response.Body)
	require.NoError(t, err)
	return response.StatusCode, b.String()
}
