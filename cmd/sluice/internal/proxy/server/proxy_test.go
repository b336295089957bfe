package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a proxy that serves.
type running struct {
	*Proxy

	t       *testing.T
	address string
	said    *lockedText
	start   string // of the file
}

// lockedText collects what is said.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", args...)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// serves starts a proxy on a free port, before a backend that does f. text is the file but for listen and to; if f is nil, it has to.
func serves(t *testing.T, f http.HandlerFunc, text string) *running {
	t.Helper()
	start := "listen: 127.0.0.1:0\n"
	if f != nil {
		start += "to: " + backendOf(t, f).URL + "\n"
	}
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, file, start+text)
	said := new(lockedText)
	p, err := New(file, said.say)
	require.NoError(t, err)
	failed := make(chan error, 2)
	stop, err := p.start(t.Context(), failed)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(said.String(), "listening on ")
	address, _, _ := strings.Cut(rest, "\n")
	t.Cleanup(func() {
		stop()
		p.Close()
		assert.Empty(t, failed)
	})
	return &running{p, t, address, said, start}
}

// becomes puts another text in effect, as SIGHUP does.
func (r *running) becomes(text string) {
	r.t.Helper()
	write(r.t, r.file, r.start+text)
	r.reload(true)
}

// gets sends a request and returns the response with its body.
func (r *running) gets(method, path string, header ...string) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.address+path, nil)
	require.NoError(r.t, err)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	return a, bodyOf(r.t, a)
}

func bodyOf(t *testing.T, a *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	return string(body)
}

// asks sends a request and returns the status and the body.
func (r *running) asks(method, path string, header ...string) (int, string) {
	r.t.Helper()
	a, body := r.gets(method, path, header...)
	return a.StatusCode, body
}

// sends writes a text to a connection and returns the response with its body.
func sends(t *testing.T, c net.Conn, in *bufio.Reader, text string) (*http.Response, string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	return a, bodyOf(t, a)
}

// sends writes a text to a connection of its own and returns the response with its body.
func (r *running) sends(text string) (*http.Response, string) {
	r.t.Helper()
	c := dial(r.t, r.address)
	return sends(r.t, c, bufio.NewReader(c), text)
}

// asksAdmin sends a request to the admin address and returns the status and the body.
func (r *running) asksAdmin(method, path, body string, header ...string) (int, string) {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	q.Host = "127.0.0.1:9090"
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.admin().ServeHTTP(w, q)
	return w.Code, w.Body.String()
}

// scraped returns what Prometheus gets.
func (r *running) scraped() string {
	r.t.Helper()
	_, text := r.asksAdmin("GET", "/metrics", "")
	return text
}

// limiter is the one of a limit without a key.
type limiter interface {
	core.Limiter
	core.Reporter
}

// limiter returns that of a policy's first limit, which has no key. The global policy comes first.
func (r *running) limiter(policy int) limiter {
	return r.state.Load().limits.Policies[policy].Requests().For(nil).(limiter)
}

// left returns how many permits that has.
func (r *running) left(policy int) int { return r.limiter(policy).Available() }

// leftOf returns the permits that a key has of each limit of a policy.
func (r *running) leftOf(policy string, key ...string) (left []int) {
	r.t.Helper()
	states, err := r.state.Load().limits.StatesOf(policy, key)
	require.NoError(r.t, err)
	for _, s := range states {
		left = append(left, *s.Available)
	}
	return left
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// backendOf starts a backend; its URL is in the file's "to".
func backendOf(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func hello(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("wrong") {
		http.Error(w, "wrong", http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, "hello")
}

func TestRoutes(t *testing.T) {
	p := serves(t, costly, `
problems: true
global: {limit: fixed 100/1h, status: 503}
policies:
  api:    {key: ip, limit: fixed 2/1h}
  login:  {key: ip, limit: fixed 2/1h, count: failures}
  export: {key: "header:X-Api-Key", limits: [fixed 3/1h, fixed 2/1m]}
routes:
  "/api/": api
  "POST /login": login
  "GET /export/{id}": export
  "/healthz": none
  "/": []
`)
	for _, step := range []struct {
		method, path, key string
		status            int
	}{
		{"GET", "/api/a", "", 200},
		{"GET", "/api/b", "", 200},
		{"GET", "/api/a", "", 429},
		{"POST", "/login", "", 200}, // three that succeed: refunded
		{"POST", "/login", "", 200},
		{"POST", "/login", "", 200},
		{"POST", "/login?status=500", "", 500}, // nor is that a guess of the client
		{"POST", "/login?status=403", "", 403},
		{"POST", "/login?status=403", "", 403},
		{"POST", "/login", "", 429},
		{"GET", "/export/1", "a", 200},
		{"GET", "/export/2", "a", 200},
		{"GET", "/export/3", "a", 429},
		{"GET", "/export/3", "b", 200}, // another key
		{"GET", "/healthz", "", 200},
		{"GET", "/else", "", 200},
	} {
		status, body := p.asks(step.method, step.path, "X-Api-Key", step.key)
		require.Equal(t, step.status, status, "%s %s: %s", step.method, step.path, body)
	}
	assert.Equal(t, 100-12, p.left(0), "only what was granted by all, and not /healthz, counts")
}

// TestNoRoute: what no route fits is under the global policy too, and so are redirects; what a route exempts is not.
func TestNoRoute(t *testing.T) {
	p := serves(t, hello, `
global: {limit: fixed 100/1h}
policies:
  each: {key: pattern, limit: fixed 2/1h}
routes:
  "/tree/": each
  "GET /a/{id}": each
  "/healthz": none
`)
	taken := 0
	for _, step := range []struct {
		method, path string
		status, more int
	}{
		{"GET", "/nosuch", 404, 1},
		{"POST", "/a/1", 405, 1},
		{"GET", "/tree", 307, 1},
		{"GET", "/tree/../healthz", 307, 1},
		{"GET", "/healthz", 200, 0},
		{"GET", "/a/1", 200, 1},
		{"GET", "/a/2", 200, 1},
		{"GET", "/a/3", 429, 0}, // the pattern is the key
		{"GET", "/tree/x", 200, 1},
		{"OPTIONS", "*", 200, 1}, // no path: it is not redirected to one
		{"GET", "*", 400, 1},
	} {
		a, _ := p.sends(step.method + " " + step.path + " HTTP/1.0\r\nHost: x\r\n\r\n") // a client would follow redirects, and clean paths
		assert.Equal(t, step.status, a.StatusCode, "%s %s", step.method, step.path)
		taken += step.more
		assert.Equal(t, 100-taken, p.left(0), "%s %s", step.method, step.path)
	}
}

// eventually waits until so many of the global policy's permits are free.
func (r *running) eventually(available int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.left(0) == available }, time.Minute, time.Millisecond)
}

// TestBodies: a request that is rejected, fits no route or has too large a body gets its response before its body has come. The
// connection is closed after it, and otherwise continues.
func TestBodies(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hello(w, r)
	})
	p := serves(t, nil, "to: "+b.URL+"\nmax-body: 4B\npolicies:\n  once: {limit: 1/h}\nroutes: {/once: once, /any/: []}\n")
	for _, test := range []struct {
		path, body string
		status     int
	}{
		{"/once", "Content-Length: 4\r\n\r\nbody", 200},
		{"/once", "Content-Length: 4\r\n\r\n", 429},
		{"/none", "Content-Length: 4\r\n\r\n", 404},
		{"/x%2f..%2fonce", "Content-Length: 4\r\n\r\n", 404},
		{"/once%3f", "Content-Length: 4\r\n\r\n", 404},
		{"/any/", "Content-Length: 4\r\n\r\nbody", 200},
		{"/any/", "Content-Length: 5\r\n\r\n", 413},
		{"/any/", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 200},
		{"/any/", "Transfer-Encoding: chunked\r\n\r\n5\r\nbody!\r\n0\r\n\r\n", 413},
		{"/any/", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\nZZ\r\n\r\n", 400}, // the client's fault
	} {
		a, _ := p.sends("POST " + test.path + " HTTP/1.1\r\nHost: x\r\n" + test.body)
		assert.Equal(t, test.status, a.StatusCode, "%v", test)
		assert.Equal(t, test.status != http.StatusOK, a.Close, "%v", test)
	}
}
