package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// costly is a backend that says in the fields of its query what a request has cost.
func costly(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	h := w.Header()
	if q.Has("early") {
		h["X-Cost"] = q["early"]
		h.Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("X-Cost")
	}
	if q.Has("header") {
		h["X-Cost"] = q["header"]
	}
	if q.Has("announced") {
		h.Set("Trailer", "X-Cost, X-Other")
	}
	if status := q.Get("status"); status != "" {
		w.WriteHeader(map[string]int{"403": 403, "500": 500, "304": 304, "204": 204}[status])
	}
	if r.Method == http.MethodHead || q.Has("status") {
		return
	}
	_, _ = io.WriteString(w, "hello")
	_ = http.NewResponseController(w).Flush()
	if q.Has("announced") {
		h["X-Cost"] = q["announced"]
		h.Set("X-Other", "other")
	}
	if q.Has("trailer") {
		h[http.TrailerPrefix+"X-Cost"] = q["trailer"]
		h.Set(http.TrailerPrefix+"X-Other", "other")
	}
}

// TestSettle: a request costs what its response says, wherever that stands, over any protocol, and the client sees nothing
// of it.
func TestSettle(t *testing.T) {
	backends := map[string]string{"HTTP/1.1": backendOf(t, costly).URL, "HTTP/2": h2cBackend(t, costly)}
	clients := map[string]*http.Client{"HTTP/1.1": {Transport: new(http.Transport)}, "HTTP/2": h2cClient(t)}
	for backend, to := range backends {
		p := serves(t, nil, "to: "+to+"\npolicies: {a: {limit: fixed 1000/1h, cost: 10, settle: x-cost}}\nroutes: {/: a}\n")
		for client, c := range clients {
			for _, test := range []struct {
				method, query string
				cost          int
			}{
				{"GET", "header=3", 3},
				{"GET", "header=0", 0},
				{"GET", "header=25", 25},
				{"GET", "trailer=4", 4},
				{"GET", "announced=5", 5},
				{"GET", "header=1&announced=26", 26}, // the trailer is later
				{"GET", "header=1&trailer=27", 27},
				{"GET", "early=9&header=2", 2},
				{"GET", "early=9", 10}, // that was no response
				{"HEAD", "header=6", 6},
				{"GET", "status=204&header=7", 7},
				{"GET", "status=500&header=8", 8},
				{"GET", "header=-1", 10},
				{"GET", "header=1.5", 10},
				{"GET", "header=99999999999999999999", 10},
				{"GET", "header=1&header=2", 10},
				{"GET", "header=", 10},
				{"GET", "trailer=many", 10},
				{"GET", "header=3&trailer=many", 10},
				{"GET", "", 10},
			} {
				what := fmt.Sprintf("%s to a backend of %s: %s %s", client, backend, test.method, test.query)
				before := p.left(0)
				q, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+p.address+"/?"+test.query, nil)
				require.NoError(t, err)
				a, err := c.Do(q)
				require.NoError(t, err, what)
				_ = bodyOf(t, a)
				require.Eventually(t, func() bool { return before-p.left(0) == test.cost }, time.Minute, time.Millisecond, what)
				assert.NotContains(t, a.Header, "X-Cost", what)
				assert.NotContains(t, a.Trailer, "X-Cost", what)
				if strings.Contains(test.query, "announced") || strings.Contains(test.query, "trailer") {
					assert.Equal(t, []string{"other"}, a.Trailer["X-Other"], what)
				}
			}
			c.CloseIdleConnections()
		}
		assert.Equal(t, 1, strings.Count(p.said.String(), "policy a: "), "once a minute: %s", p.said)
	}
}

// TestSettleIsNotSeen: nor is there anything in the bytes of a response, whichever response it is.
func TestSettleIsNotSeen(t *testing.T) {
	p := serves(t, costly, "global: {limit: fixed 1000/1h, settle: X-Cost}\n")
	for _, query := range []string{"header=3", "early=9&header=3", "announced=4", "trailer=5", "header=a&trailer=b"} {
		got := p.raw("GET /?"+query+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTE: trailers\r\n\r\n", false)
		assert.Contains(t, got, "hello")
		assert.NotContains(t, strings.ToLower(got), "x-cost", query)
	}
	assert.Equal(t, 1000-3-3-4-5-1, p.left(0))
}

// TestSettleOfSeveralPolicies: each policy reads its own field, all fields are taken off, and each of a policy's limits is
// settled.
func TestSettleOfSeveralPolicies(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Rows", "7")
		w.Header().Set("X-Cost", "3")
		hello(w, httptest.NewRequest(http.MethodGet, "/", nil))
	})
	p := serves(t, nil, "to: "+b.URL+`
global: {limit: fixed 100/1h, settle: X-Cost}
policies:
  rows: {key: ip, limits: [fixed 100/1h, sliding 50/1h, concurrency 20], cost: 10, settle: X-Rows}
  also: {limit: fixed 100/1h, settle: X-Cost}
routes: {/: [rows, also]}
`)
	a, _ := p.gets("GET", "/")
	assert.NotContains(t, a.Header, "X-Rows")
	assert.NotContains(t, a.Header, "X-Cost")
	p.eventually(97)
	assert.Equal(t, 97, p.left(2))
	assert.Equal(t, []int{93, 43, 20}, p.leftOf("rows", "127.0.0.1"))
}

// TestSettleWithoutAnAnswer: a backend that is away or breaks off says nothing, so the cost is as it was; that is nothing
// to log. What a response has said counts for nothing if its client has disconnected.
func TestSettleWithoutAnAnswer(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/says":
			w.Header().Set("X-Cost", "7")
		case "/never":
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path != "/breaks" {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: fixed 100/1h, cost: 2, settle: X-Cost}\n")
	held := 98 // left while the request is in flight
	for _, test := range []struct {
		path string
		left int
	}{{"/never", 98}, {"/streams", 96}, {"/says", 94}, {"/breaks", 92}} {
		c := dial(t, p.address)
		_, err := io.WriteString(c, "GET "+test.path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		if test.path != "/never" {
			_, err = http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
		}
		p.eventually(held)
		held = test.left - 2
		require.NoError(t, c.Close())
		p.eventually(test.left)
	}
	p.becomes("to: http://127.0.0.1:1\nglobal: {limit: fixed 100/1h, cost: 2, settle: X-Cost}\n")
	status, _ := p.asks("GET", "/")
	assert.Equal(t, http.StatusBadGateway, status)
	p.eventually(90)
	assert.NotContains(t, p.said.String(), "policy global: ")
}
