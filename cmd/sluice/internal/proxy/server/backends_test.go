package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBackendComesBack: while no backend responds it is 502, and the leases go back.
func TestBackendComesBack(t *testing.T) {
	first := backendOf(t, hello)
	second := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "second:%s", b)
	})
	p := serves(t, nil, "to: ["+first.URL+", "+second.URL+"]\nglobal: {limit: concurrency 1}\n")
	answers := make(map[string]int)
	for range 10 {
		_, body := p.asks("GET", "/")
		answers[body]++
	}
	assert.Equal(t, map[string]int{"hello": 5, "second:": 5}, answers, "round-robin")
	address := first.Listener.Addr().String()
	first.Close()
	_, _ = p.asks("GET", "/") // a POST on a connection that has just been closed is not sent again
	_, _ = p.asks("GET", "/")
	posts := func(p *running, n int) {
		t.Helper()
		for range n {
			a, err := http.Post("http://"+p.address, "text/plain", strings.NewReader("body"))
			require.NoError(t, err)
			assert.Equal(t, "second:body", bodyOf(t, a))
		}
	}
	posts(p, 6)
	posts(serves(t, nil, "to: [http://127.0.0.1:1, "+second.URL+"]\n"), 2) // the first one refuses at least one of them
	assert.Contains(t, p.said.String(), "backend "+first.URL+" is unreachable")
	second.Close()
	for range 3 {
		status, _ := p.asks("GET", "/")
		assert.Equal(t, http.StatusBadGateway, status)
	}
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	back := httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(hello)}}
	back.Start()
	t.Cleanup(back.Close)
	status, body := p.asks("GET", "/")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "hello", body)
	assert.Contains(t, p.said.String(), "backend "+first.URL+" is reachable again")
	assert.Equal(t, 1, p.left(0))
}
