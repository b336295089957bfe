//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page returns the block of docs/serve.md that stands below <!-- MARK -->: what the page says is what these tests run.
func page(t *testing.T, mark string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/serve.md")
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(text), "<!-- "+mark+" -->\n```yaml\n")
	require.True(t, ok, mark)
	block, _, ok := strings.Cut(after, "```")
	require.True(t, ok)
	return block
}

// gateway is an Envoy that asks a sluice serve before each request to a backend.
type gateway struct {
	t   *testing.T
	url string
}

// startEnvoy starts an Envoy with the page's configuration, after changes to it. The program is that of SLUICE_ENVOY, or in PATH.
func startEnvoy(t *testing.T, service string, changes ...string) *gateway {
	t.Helper()
	program := os.Getenv("SLUICE_ENVOY")
	if program == "" {
		var err error
		if program, err = exec.LookPath("envoy"); err != nil {
			t.Skip("NOT TESTED: envoy is not installed; make envoy gets it")
		}
	}
	to, err := url.Parse(helloServer(t).URL)
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(service)
	require.NoError(t, err)
	changes = append(changes, "port_value: 9901", "port_value: 0", "port_value: 8080", "port_value: 0",
		"port_value: 8081", "port_value: "+port, "port_value: 9000", "port_value: "+to.Port())
	config := page(t, "envoy")
	for i := 0; i < len(changes); i += 2 {
		require.Contains(t, config, changes[i])
		config = strings.ReplaceAll(config, changes[i], changes[i+1])
	}
	file, admin := fileOf(t, "envoy.yaml", config), filepath.Join(t.TempDir(), "admin")
	c := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-c", file, "--admin-address-path", admin, "--concurrency", "1",
		"--use-dynamic-base-id", "--log-level", "warning")
	log := new(strings.Builder)
	c.Stdout, c.Stderr = log, log
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	g := &gateway{t: t}
	require.Eventually(t, func() bool {
		address, err := os.ReadFile(admin)
		if err != nil || len(address) == 0 {
			return false
		}
		a, err := http.Get("http://" + string(address) + "/listeners?format=json")
		if err != nil {
			return false
		}
		defer func() { _ = a.Body.Close() }()
		var listeners struct {
			Statuses []struct {
				Address struct {
					Socket struct {
						Port json.Number `json:"port_value"`
					} `json:"socket_address"`
				} `json:"local_address"`
			} `json:"listener_statuses"`
		}
		if json.NewDecoder(a.Body).Decode(&listeners) != nil || len(listeners.Statuses) == 0 {
			return false
		}
		g.url = "http://127.0.0.1:" + listeners.Statuses[0].Address.Socket.Port.String()
		_, status := g.try("nobody")
		return status == http.StatusOK || status == http.StatusTooManyRequests || status == http.StatusInternalServerError
	}, time.Minute, 20*time.Millisecond)
	return g
}

// try sends a request of a user, "" for none.
func (g *gateway) try(user string) (http.Header, int) {
	q, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.url, nil)
	if err != nil {
		return nil, 0
	}
	if user != "" {
		q.Header.Set("X-User", user)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, 0
	}
	defer func() { _ = a.Body.Close() }()
	_, _ = io.Copy(io.Discard, a.Body)
	return a.Header, a.StatusCode
}

// asks is try for a request that must have that status.
func (g *gateway) asks(user string, want int) http.Header {
	g.t.Helper()
	h, status := g.try(user)
	assert.Equal(g.t, want, status, "%s: %v", user, h)
	return h
}

// ready waits until Envoy reaches the service.
func (g *gateway) ready() {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		h, _ := g.try("")
		return h.Get("X-Ratelimit-Limit") != ""
	}, time.Minute, 20*time.Millisecond)
}

func rules(t *testing.T) (file, text string) {
	t.Helper()
	text = page(t, "rules")
	return fileOf(t, "shop.yaml", text), text
}

// TestEnvoy: a real Envoy limits requests by header and address, all or nothing.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	file, _ := rules(t)
	s := startServing(t, "--config", file, "--headers")
	g := startEnvoy(t, s.address)
	g.ready()
	left := func() string { return g.asks("", http.StatusOK).Get("X-Ratelimit-Remaining") }
	before := left()
	for i := range 6 {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		h := g.asks("ann", want)
		assert.Equal(t, []string{"2", "1", "0", "0", "0", "0"}[i], h.Get("X-Ratelimit-Remaining"))
		assert.Contains(t, h.Get("X-Ratelimit-Limit"), "3, ", "with all limits of the request")
		assert.NotEmpty(t, h.Get("X-Ratelimit-Reset"))
		assert.Equal(t, "3", h.Get("Ratelimit-Limit"))
		assert.Equal(t, []string{"2", "1", "0", "0", "0", "0"}[i], h.Get("Ratelimit-Remaining"))
		assert.Equal(t, i >= 3, h.Get("X-Envoy-Ratelimited") == "true")
	}
	g.asks("bob", http.StatusOK)
	assert.Equal(t, minus(t, before, 5), left(), "rejected requests took nothing of the address")
	for range 20 {
		g.asks("batch", http.StatusOK)
	}
}

func minus(t *testing.T, text string, n int64) string {
	t.Helper()
	v, err := json.Number(text).Int64()
	require.NoError(t, err)
	number, err := json.Marshal(v - n)
	require.NoError(t, err)
	return string(number)
}

// TestEnvoyWithoutService: Envoy's failure_mode_deny decides while the service is down.
func TestEnvoyWithoutService(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deny string
		want int
	}{{"false", http.StatusOK}, {"true", http.StatusInternalServerError}} {
		t.Run("failure_mode_deny "+c.deny, func(t *testing.T) {
			t.Parallel()
			file, _ := rules(t)
			s := startServing(t, "--config", file)
			g := startEnvoy(t, s.address, "failure_mode_deny: false", "failure_mode_deny: "+c.deny)
			g.ready()
			for range 3 {
				g.asks("ann", http.StatusOK)
			}
			g.asks("ann", http.StatusTooManyRequests)
			s.signal(syscall.SIGTERM)
			status, _, _ := s.ends()
			assert.Equal(t, 0, status)
			for range 5 {
				g.asks("ann", c.want)
			}
		})
	}
}

// TestEnvoyWithoutRedis: while Redis is stopped fail-open of the domain decides, in time, and not failure_mode_deny.
func TestEnvoyWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		open, deny string
		want       int
	}{
		{"true", "true", http.StatusOK},
		{"false", "false", http.StatusTooManyRequests},
	} {
		t.Run("fail-open "+c.open, func(t *testing.T) {
			t.Parallel()
			url, redis := redisServer(t)
			file, text := rules(t)
			require.NoError(t, os.WriteFile(file, []byte("fail-open: "+c.open+"\n"+text), 0o600))
			s := startServing(t, "--config", file, "--redis", url)
			g := startEnvoy(t, s.address, "failure_mode_deny: false", "failure_mode_deny: "+c.deny)
			require.Eventually(t, func() bool { _, status := g.try("ann"); return status == http.StatusOK }, time.Minute, 20*time.Millisecond)
			require.NoError(t, redis.Signal(syscall.SIGSTOP))
			for range 20 {
				g.asks("eve", c.want)
			}
			require.NoError(t, redis.Signal(syscall.SIGCONT))
			require.Eventually(t, func() bool { _, status := g.try("ann"); return status == http.StatusTooManyRequests }, time.Minute, 20*time.Millisecond)
		})
	}
}

// TestEnvoyReload: no request is lost while the rules change.
func TestEnvoyReload(t *testing.T) {
	t.Parallel()
	file, text := rules(t)
	s := startServing(t, "--config", file)
	g := startEnvoy(t, s.address, "failure_mode_deny: false", "failure_mode_deny: true", "- actions: [{remote_address: {}}]", "")
	require.Eventually(t, func() bool { _, status := g.try("batch"); return status == http.StatusOK }, time.Minute, 20*time.Millisecond)
	var enough atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer enough.Store(true)
	for range 4 {
		all.Go(func() {
			for !enough.Load() {
				g.asks("batch", http.StatusOK)
			}
		})
	}
	for i := range 5 {
		changed := text
		if i%2 == 0 {
			changed = strings.Replace(text, "requests_per_unit: 3", "requests_per_unit: 4", 1)
		}
		replace(t, file, changed)
		assert.Equal(t, "sluice serve: reloaded "+file, s.line(s.errs))
	}
}
