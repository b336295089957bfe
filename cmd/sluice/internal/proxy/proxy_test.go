package proxy

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
)

// running is a proxy that serves.
type running struct {
	*proxy

	t       *testing.T
	server  server
	address string
	said    *lockedText
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

// serves starts a proxy on a free port; text is the file but for listen.
func serves(t *testing.T, tcp bool, text string) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, file, listen+text)
	said := new(lockedText)
	p, err := newProxy(file, tcp, said.say)
	require.NoError(t, err)
	failed := make(chan error, 2)
	s, err := p.start(t.Context(), failed)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(said.String(), "listening on ")
	address, _, _ := strings.Cut(rest, "\n")
	t.Cleanup(func() {
		_ = s.Close()
		p.close()
		assert.Empty(t, failed)
	})
	return &running{p, t, s, address, said}
}

const listen = "listen: 127.0.0.1:0\n"

// becomes puts another text in force, as SIGHUP does.
func (r *running) becomes(text string) {
	r.t.Helper()
	write(r.t, r.file, listen+text)
	r.reload(true)
}

// asks sends a request and returns the status and the body.
func (r *running) asks(method, path string, header ...string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.address+path, nil)
	require.NoError(r.t, err)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	return a.StatusCode, string(body)
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
	b := backendOf(t, hello)
	p := serves(t, false, "to: "+b.URL+`
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
		{"POST", "/login?wrong", "", 403},
		{"POST", "/login?wrong", "", 403},
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
	for _, policy := range p.state.Load().policies {
		if policy.Name == "global" {
			s := policy.requests[0].one.Statistics()
			assert.Equal(t, 100-11, s.Available, "only what was granted by all, and not /healthz, counts")
		}
	}
}

// TestNoRoute: what no route fits is under the global policy too, and so are redirects; what a route exempts is not.
func TestNoRoute(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, false, "to: "+b.URL+`
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
	} {
		c := dial(t, p.address) // a client would follow redirects, and clean paths
		_, err := io.WriteString(c, step.method+" "+step.path+" HTTP/1.0\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		_ = a.Body.Close()
		assert.Equal(t, step.status, a.StatusCode, "%s %s", step.method, step.path)
		taken += step.more
		assert.Equal(t, 100-taken, p.state.Load().global.requests[0].one.Available(), "%s %s", step.method, step.path)
	}
}

// TestReloadUnderLoad: no request fails while the file changes, and what is held stays counted.
func TestReloadUnderLoad(t *testing.T) {
	b := backendOf(t, hello)
	text := func(i int) string {
		return fmt.Sprintf(`to: %s
headers: %s
global: {limit: concurrency %d}
policies:
  api: {key: ip, limit: %d/s burst %d}
  p%d: {limit: 10/s}
routes:
  "/": api
  "/p%d/": p%d
`, b.URL, []string{"draft-11", "x-ratelimit"}[i%2], 100+i, 1000000+i, 1000000, i, i, i)
	}
	p := serves(t, false, text(0))
	before := p.state.Load().policies[0].requests[0]
	held := before.one.TryAcquire(7)
	require.True(t, held.Acquired())
	var stop atomic.Bool
	var failed, done atomic.Int64
	var w sync.WaitGroup
	for range 4 {
		w.Go(func() {
			for !stop.Load() {
				a, err := http.Get("http://" + p.address + "/x")
				if err != nil || a.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, a.Body)
					_ = a.Body.Close()
				}
				done.Add(1)
			}
		})
	}
	for i := 1; i <= 100; i++ {
		p.becomes(text(i))
		for at := done.Load(); done.Load() == at; { // each is met by requests
			_, _ = p.asks("GET", "/x")
		}
	}
	stop.Store(true)
	w.Wait()
	assert.Zero(t, failed.Load(), "of %d", done.Load())
	assert.NotContains(t, p.said.String(), "nothing has changed")
	after := p.state.Load().policies[0].requests[0]
	assert.Same(t, before, after)
	s := after.one.Statistics()
	assert.Equal(t, 200, s.Limit)
	assert.Equal(t, 193, s.Available)
	held.Release()
}

// TestReloadInFlight: what is under way when the file changes counts under the new numbers, is refunded to the limiter
// that it was taken from, and gets its turn even in the queue of a policy that is gone.
func TestReloadInFlight(t *testing.T) {
	came, hold := make(chan struct{}, 3), make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		<-hold
		_, _ = io.WriteString(w, "hello")
	})
	p := serves(t, false, "to: "+b.URL+`
global: {limit: concurrency 5}
policies:
  stays: {limit: fixed 2/1h, count: failures}
  goes:  {limit: concurrency 1 queue 1}
routes: {/stays: stays, /goes: goes}
`)
	limiter := func(policy int) *follower { return p.state.Load().policies[policy].requests[0].one }
	goes := limiter(2)
	var all sync.WaitGroup
	for _, path := range []string{"/stays", "/goes", "/goes"} {
		all.Go(func() {
			a, err := http.Get("http://" + p.address + path)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, a.StatusCode, path)
				_ = a.Body.Close()
			}
		})
	}
	<-came
	<-came
	require.Eventually(t, func() bool { return goes.Statistics().Queued == 1 }, time.Minute, time.Millisecond)
	p.becomes("to: " + b.URL + `
global: {limit: concurrency 4}
policies:
  stays: {limit: fixed 3/1h, count: failures}
routes: {/stays: stays, /: []}
`)
	assert.Equal(t, 1, limiter(0).Available())
	assert.Equal(t, 2, limiter(1).Available())
	close(hold)
	all.Wait()
	p.eventually(4)
	assert.Equal(t, 3, limiter(1).Available())
	assert.Equal(t, 1, goes.Available())
}

// TestReloadReachesKeys: the limiters that clients have already obey the new terms.
func TestReloadReachesKeys(t *testing.T) {
	b := backendOf(t, hello)
	text := "to: " + b.URL + "\nglobal: {key: ip, limit: fixed %d/1h}\n"
	p := serves(t, false, fmt.Sprintf(text, 2))
	for _, status := range []int{200, 200, 429} {
		got, _ := p.asks("GET", "/")
		require.Equal(t, status, got)
	}
	p.becomes(fmt.Sprintf(text, 3)) // one more, not three more
	for _, status := range []int{200, 429} {
		got, _ := p.asks("GET", "/")
		require.Equal(t, status, got)
	}
}

func TestBadFileChangesNothing(t *testing.T) {
	b := backendOf(t, hello)
	good := "to: " + b.URL + "\nglobal: {limit: fixed 1000/1h}\n"
	p := serves(t, false, good)
	state := p.state.Load()
	for _, test := range []struct{ text, say string }{
		{"", "to is missing"},
		{"to: [", "limits.yaml:2:5: "},
		{"to: 9\nglobal: {limit: many, status: 9}\n", `limits.yaml:3:17: "many"`},
		{"to: 9\nglobal: {limit: many, status: 9}\n", "limits.yaml:3:31: status"},
		{"to: 9\n", `limits.yaml:2:5: to is "9"`},
		{good + "admin: 127.0.0.1:1\n", "limits.yaml:4:8: admin was"},
		{good + "tls: {cert: nosuch, key: nosuch}\n", "limits.yaml:4:13: tls: open nosuch"},
		{good + "redis: redis://127.0.0.1:1/0\n", "that needs a restart"},
	} {
		p.becomes(test.text)
		assert.Contains(t, p.said.String(), test.say)
		assert.Same(t, state, p.state.Load())
	}
	write(t, p.file, "")
	p.reload(true)
	assert.Contains(t, p.said.String(), "limits.yaml:1:1: the file is empty")
	require.NoError(t, os.Remove(p.file))
	p.reload(false) // a new one is on its way
	p.reload(true)
	assert.Contains(t, p.said.String(), "no such file")
	assert.Same(t, state, p.state.Load())
	status, _ := p.asks("GET", "/")
	assert.Equal(t, 200, status)
}

// TestBackendComesBack: while no backend answers it is 502, and the leases go back.
func TestBackendComesBack(t *testing.T) {
	first := backendOf(t, hello)
	second := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "second:%s", b)
	})
	p := serves(t, false, "to: ["+first.URL+", "+second.URL+"]\nglobal: {limit: concurrency 1}\n")
	answers := make(map[string]int)
	for range 10 {
		_, body := p.asks("GET", "/")
		answers[body]++
	}
	assert.Equal(t, map[string]int{"hello": 5, "second:": 5}, answers, "in turns")
	address := first.Listener.Addr().String()
	first.Close()
	for range 6 {
		a, err := http.Post("http://"+p.address, "text/plain", strings.NewReader("body"))
		require.NoError(t, err)
		body, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		_ = a.Body.Close()
		assert.Equal(t, "second:body", string(body))
	}
	assert.Contains(t, p.said.String(), "backend "+first.URL+" is away")
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
	assert.Contains(t, p.said.String(), "backend "+first.URL+" is back")
	assert.Equal(t, 1, p.state.Load().global.requests[0].one.Available())
}

func TestHeaders(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%q %q %q %q %s", r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"], r.Header["Connection"], r.Header["X-Hop"], r.URL)
	})
	p := serves(t, false, "to: "+b.URL+"/base\n")
	_, body := p.asks("GET", "/a%2Fb?x=1;y", "X-Forwarded-For", "1.2.3.4", "Connection", "X-Hop", "X-Hop", "hop")
	assert.Equal(t, `["127.0.0.1"] ["http"] [] [] /base/a%2Fb?x=1;y`, body)
	p.becomes("to: " + b.URL + "/base\ntrusted: [127.0.0.0/8]\n")
	_, body = p.asks("GET", "/", "X-Forwarded-For", "1.2.3.4")
	assert.Contains(t, body, `["1.2.3.4, 127.0.0.1"]`)
}

// TestUpgradeAndStream: bytes of upgraded connections and of streams pass as they come, under a lease.
func TestUpgradeAndStream(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "one\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(c, buf)
	})
	p := serves(t, false, "to: "+b.URL+"\nglobal: {limit: concurrency 2, count: failures, download: 1MiB/s}\nheaders: draft-11\n")
	c, err := net.Dial("tcp", p.address)
	require.NoError(t, err)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(c)
	a, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	_ = a.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode)
	for range 3 {
		_, err = io.WriteString(c, "ping\n")
		require.NoError(t, err)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "ping\n", line)
	}
	p.becomes("to: " + b.URL + "\nglobal: {limit: concurrency 1, count: failures}\n")
	_, err = io.WriteString(c, "still\n")
	require.NoError(t, err)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "still\n", line)
	status, _ := p.asks("GET", "/events")
	assert.Equal(t, http.StatusTooManyRequests, status, "the upgraded connection holds the only lease")
	_ = c.Close()
	p.eventually(1)

	ctx, cancel := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/events", nil)
	require.NoError(t, err)
	events, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	line, err = bufio.NewReader(events.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "one\n", line, "before the answer ends")
	cancel()
	_ = events.Body.Close()
	p.eventually(1)
}

// eventually waits until so many of the global policy's permits are free.
func (r *running) eventually(available int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.state.Load().global.requests[0].one.Available() == available },
		time.Minute, time.Millisecond)
}

// TestSlowClients: clients that send their requests slowly, or not at all, hold no more than their share.
func TestSlowClients(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hello(w, r)
	})
	p := serves(t, false, "to: "+b.URL+"\nglobal: {limit: concurrency 20}\npolicies:\n  each: {key: 'header:X-Client', limit: concurrency 3}\nroutes: {/: each}\n")
	var statuses sync.Map
	for i := range 10 {
		c, err := net.Dial("tcp", p.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nX-Client: slow\r\nContent-Length: 10\r\n\r\n1")
		require.NoError(t, err)
		go func() {
			if a, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				_ = a.Body.Close()
				statuses.Store(i, a.StatusCode)
			}
		}()
	}
	for range 50 { // and some that do not even end their headers: they hold nothing at all
		c, err := net.Dial("tcp", p.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHo")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		n := 0
		statuses.Range(func(_, v any) bool { n++; return assert.Equal(t, http.StatusTooManyRequests, v) })
		return n == 7
	}, time.Minute, 5*time.Millisecond)
	status, _ := p.asks("GET", "/", "X-Client", "quick")
	assert.Equal(t, http.StatusOK, status)
	p.eventually(17)
}

func TestAdmin(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, false, "to: "+b.URL+`
global: {limit: fixed 100/1h}
policies:
  api: {key: ip, limit: fixed 1/1h}
  two: {limits: [fixed 5/1h, concurrency 2], upload: 1MiB/s}
routes: {/: api, /two/: two}
`)
	h := p.admin()
	does := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	for range 3 {
		_, _ = p.asks("GET", "/")
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"GET", "/limits", "", 200, `"concurrency 2"`},
		{"GET", "/limits/api", "", 200, `"limit": "fixed 1/h"`},
		{"GET", "/limits/nosuch", "", 404, "nosuch"},
		{"PUT", "/limits/nosuch", `{"limit": "1/s"}`, 404, "nosuch"},
		{"PUT", "/limits/api", `{"limit": "1/x"}`, 400, `unknown time "x"`},
		{"PUT", "/limits/api", `{"limit": 5}`, 400, `want {"limit"`},
		{"PUT", "/limits/api", `{}`, 400, "want"},
		{"PUT", "/limits/api", `{"limit": "1/s", "limits": ["1/s"]}`, 400, "want"},
		{"PUT", "/limits/api", `{"rate": "1/s"}`, 400, "rate"},
		{"PUT", "/limits/api", `{"limit": "fixed 2/1h"}`, 200, `"limit": "fixed 2/h"`},
		{"PUT", "/limits/two", `{"limits": ["fixed 6/1h", "concurrency 3"]}`, 200, `"concurrency 3"`},
		{"PUT", "/limits/global", `{"limit": "concurrency 9"}`, 200, `"concurrency 9"`},
		{"POST", "/limits/api", "", 405, ""},
		{"GET", "/metrics", "", 200, `sluice_http_requests_total{sluice_http_policy="api",sluice_http_result="endpoint_limiter"} 2`},
		{"GET", "/metrics", "", 200, `sluice_partition_live{sluice_limiter_name="api"} 1`},
		{"GET", "/metrics", "", 200, `sluice_limiter_permits_limit{sluice_limiter_name="global"} 9`},
	} {
		status, text := does(test.method, test.path, test.body)
		assert.Equal(t, test.status, status, "%s %s %s: %s", test.method, test.path, test.body, text)
		assert.Contains(t, text, test.text, "%s %s %s", test.method, test.path, test.body)
	}
	for _, want := range []int{200, 429} { // one of two is taken already
		status, _ := p.asks("GET", "/")
		assert.Equal(t, want, status)
	}
	p.draining.Store(true)
	status, _ := does("GET", "/healthz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
}

// certificate writes that of an httptest server, and its key.
func certificate(t *testing.T, s *httptest.Server) (cert, key string) {
	t.Helper()
	pair := s.TLS.Certificates[0]
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return cert, key
}

// TestCertificates: their files are read with the configuration, and a limit is changed whatever is in them.
func TestCertificates(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	p := serves(t, false, "to: "+b.URL+"\ntls: {cert: "+cert+", key: "+key+"}\nglobal: {limit: fixed 1/1h}\n")
	write(t, cert, "broken")
	p.reload(true)
	assert.Contains(t, p.said.String(), "limits.yaml:3:13: tls: failed to find any PEM data")
	limit, err := spec.Parse("fixed 2/1h")
	require.NoError(t, err)
	require.NoError(t, p.change("global", []spec.Limit{limit}))
	client := secure.Client()
	for _, want := range []int{200, 200, 429} {
		a, err := client.Get("https://" + p.address)
		require.NoError(t, err)
		_ = a.Body.Close()
		assert.Equal(t, want, a.StatusCode)
	}
}

// TestHTTP2: over TLS, and without where the client knows that it may.
func TestHTTP2(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	for _, test := range []struct{ scheme, tls string }{
		{"https", "tls: {cert: " + cert + ", key: " + key + "}\n"},
		{"http", ""},
	} {
		p := serves(t, false, "to: "+b.URL+"\n"+test.tls+"global: {key: ip, limit: fixed 2/1h}\n")
		transport := secure.Client().Transport.(*http.Transport).Clone()
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(test.scheme == "https")
		transport.Protocols.SetUnencryptedHTTP2(test.scheme == "http")
		t.Cleanup(transport.CloseIdleConnections)
		client := http.Client{Transport: transport}
		for _, want := range []int{200, 200, 429} {
			a, err := client.Post(test.scheme+"://"+p.address, "text/plain", strings.NewReader("body"))
			require.NoError(t, err)
			_ = a.Body.Close()
			assert.Equal(t, want, a.StatusCode)
			assert.Equal(t, 2, a.ProtoMajor)
		}
	}
}
