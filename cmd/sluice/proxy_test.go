//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProxySignals: a changed file is put in force, SIGHUP reads it again, SIGTERM lets what is under way end.
func TestProxySignals(t *testing.T) {
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = backend.Close() }()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	text := "listen: 127.0.0.1:0\nto: " + backend.Addr().String() + "\nglobal: {limit: concurrency %d}\n"
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, 1), 0o600))
	s := start(t, programs(t), "sluice", "proxy", "--tcp", "--config", file)
	address, ok := strings.CutPrefix(s.line(s.errs), "sluice proxy: listening on ")
	require.True(t, ok)
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	b, err := backend.Accept()
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, 2), 0o600))
	assert.Contains(t, s.line(s.errs), "the limits are those of")
	require.NoError(t, os.WriteFile(file+".new", []byte("listen: ["), 0o600))
	require.NoError(t, os.Rename(file+".new", file)) // as editors do
	assert.Contains(t, s.line(s.errs), "limits.yaml:1:9: ")
	assert.Contains(t, s.line(s.errs), "nothing has changed")
	s.signal(syscall.SIGHUP)
	assert.Contains(t, s.line(s.errs), "limits.yaml:1:9: ")
	assert.Contains(t, s.line(s.errs), "nothing has changed")

	s.signal(syscall.SIGTERM)
	assert.Contains(t, s.line(s.errs), "ending")
	_, err = io.WriteString(b, "late")
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, "late", string(got))
	_ = b.Close()
	_ = c.Close()
	status, _, _ := s.ends()
	assert.Equal(t, 0, status)
}

// TestProxiesShareALimit: what one proxy has granted counts in the other, for each client; while Redis is away a policy
// that fails open lets pass, and the others answer 503.
func TestProxiesShareALimit(t *testing.T) {
	url, redis := redisServer(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer backend.Close()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nto: "+backend.URL+"\nredis: "+url+`
policies:
  each: {key: "header:X-Client", limit: fixed 4/1h, download: 10MiB/s}
  open: {limit: fixed 4/1h, fail-open: true}
routes: {/: each, /open: open}
`), 0o600))
	dir := programs(t)
	var addresses []string
	for range 2 {
		s := start(t, dir, "sluice", "proxy", "--config", file)
		address, ok := strings.CutPrefix(s.line(s.errs), "sluice proxy: listening on ")
		require.True(t, ok)
		addresses = append(addresses, address)
	}
	asks := func(i int, path, client string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addresses[i%2]+path, nil)
		require.NoError(t, err)
		q.Header.Set("X-Client", client)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		defer func() { _ = a.Body.Close() }()
		_, err = io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode
	}
	statuses := make(map[int]int)
	for i := range 10 {
		statuses[asks(i, "/", "a {curly}")]++
	}
	assert.LessOrEqual(t, statuses[200], 4, "%v", statuses)
	assert.Positive(t, statuses[200], "%v", statuses)
	assert.Equal(t, 10, statuses[200]+statuses[429]+statuses[503], "%v", statuses)
	require.NoError(t, redis.Kill())
	for i := range 4 {
		assert.Equal(t, http.StatusServiceUnavailable, asks(i, "/", "another"))
		assert.Equal(t, http.StatusOK, asks(i, "/open", "another"))
	}
}
