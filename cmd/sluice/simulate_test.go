//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	log := filepath.Join(t.TempDir(), "access.log")
	s := startProxy(t, configOf(backend.URL, "trusted: [127.0.0.0/8]\naccess-log: "+log+`
policies:
  parts:  {key: [ip, path:1], limits: [fixed 40/1h, 12/h burst 12], cost: 3, shadow: true,
           overrides: {10.0.0.0/8: unlimited, 192.0.2.1: [fixed 30/1h]}}
  all:    {limit: fixed 50/1h, shadow: true}
  agent:  {key: "header:User-Agent", limit: fixed 60/1h, cost: 2, overrides: {robot: fixed 4/1h}}
routes: {/: [parts, all, agent]}
`))
	r := rand.New(rand.NewPCG(1, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	const n = 400
	refused := 0
	for range n {
		path := pick("/", "/free", "/free/%61", "/%66ree/x", "/big", "/big/x", "/other?big", "/free;x")
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		require.NoError(t, err)
		q.Header.Set("X-Forwarded-For", pick("10.1.2.3", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"))
		q.Header.Set("User-Agent", pick("robot", "curl", "browser"))
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		_ = bodyOf(t, a)
		if a.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	require.Positive(t, refused)
	_, metrics := s.admins("GET", "/metrics")
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs(t), "sluice"), "simulate", "--config", s.file, "--json", log).Output()
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
