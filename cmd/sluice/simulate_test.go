//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSimulateAgreesWithTheProxy: of the proxy's own access log simulate tells, for the same file, what its policies have
// rejected, and what those in shadow would have.
func TestSimulateAgreesWithTheProxy(t *testing.T) {
	t.Parallel()
	backend := helloServer(t)
	dir := t.TempDir()
	file, log := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "access.log")
	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntrusted: [127.0.0.0/8]\naccess-log: "+log+"\nto: "+backend.URL+`
policies:
  parts:  {key: [ip, path:1], limits: [fixed 40/1h, 12/h burst 12], cost: 3, shadow: true,
           overrides: {10.0.0.0/8: unlimited, 192.0.2.1: {free: unlimited, big: [fixed 30/1h]}}}
  all:    {limit: fixed 50/1h, shadow: true}
  agent:  {key: "header:User-Agent", limit: fixed 60/1h, cost: 2, overrides: {robot: fixed 4/1h}}
routes: {/: [parts, all, agent]}
`), 0o600))
	s := start(t, programs(t), "sluice", "proxy", "--config", file)
	address := s.addressAfter("sluice proxy: listening on ")
	admin := s.addressAfter("sluice proxy: admin on ")
	gets := func(url string, set func(http.Header)) (int, string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		set(q.Header)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		defer func() { _ = a.Body.Close() }()
		body, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode, string(body)
	}
	r := rand.New(rand.NewPCG(1, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	const n = 400
	refused := 0
	for range n {
		path := pick("/", "/free", "/free/%61", "/%66ree/x", "/big", "/big/x", "/other?big", "/free;x")
		status, _ := gets("http://"+address+path, func(h http.Header) {
			h.Set("X-Forwarded-For", pick("10.1.2.3", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"))
			h.Set("User-Agent", pick("robot", "curl", "browser"))
		})
		if status == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Positive(t, refused)
	_, metrics := gets("http://"+admin+"/metrics", func(http.Header) {})
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs(t), "sluice"), "simulate", "--config", file, "--json", log).Output()
	require.NoError(t, err)
	var told struct {
		Requests, Rejected int
		Shadowed           map[string]int
	}
	require.NoError(t, json.Unmarshal(out, &told))
	assert.Equal(t, n, told.Requests)
	assert.Equal(t, refused, told.Rejected)
	for _, policy := range []string{"parts", "all"} {
		_, after, ok := strings.Cut(metrics, fmt.Sprintf("sluice_http_requests_total{sluice_http_policy=%q,sluice_http_result=\"shadowed\"} ", policy))
		require.True(t, ok, metrics)
		line, _, _ := strings.Cut(after, "\n")
		want, err := strconv.Atoi(line)
		require.NoError(t, err)
		assert.Equal(t, want, told.Shadowed[policy], policy)
	}
	assert.NotContains(t, told.Shadowed, "agent")
}
