//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// helloServer starts a backend.
func helloServer(t *testing.T) *httptest.Server {
	t.Helper()
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(b.Close)
	return b
}

// addressAfter returns the address in the next message, which starts with a text.
func (s *started) addressAfter(text string) string {
	s.t.Helper()
	line := s.line(s.errs)
	address, ok := strings.CutPrefix(line, text)
	require.True(s.t, ok, line)
	return address
}

// proxy is a sluice proxy that runs.
type proxy struct {
	*started

	file, address, url, admin string
}

// configOf returns a configuration that limits what goes to a backend.
func configOf(backend, text string) string {
	return "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nto: " + backend + "\n" + text
}

// startProxy starts a proxy of a configuration.
func startProxy(t *testing.T, config string, flags ...string) *proxy {
	t.Helper()
	return startProxyOf(t, fileOf(t, "limits.yaml", config), flags...)
}

// startProxyOf starts a proxy of a file.
func startProxyOf(t *testing.T, file string, flags ...string) *proxy {
	t.Helper()
	s := start(t, programs(t), "sluice", append([]string{"proxy", "--config", file}, flags...)...)
	address := s.addressAfter("sluice proxy: listening on ")
	return &proxy{started: s, file: file, address: address, url: "http://" + address, admin: "http://" + s.addressAfter("sluice proxy: admin on ")}
}

// asks sends a request as a client, and returns the status of the response.
func (p *proxy) asks(path, client string) int {
	p.t.Helper()
	return statusOf(p.t, p.url+path, client)
}

// admins asks the admin server.
func (p *proxy) admins(method, path string) (status int, body string) {
	p.t.Helper()
	q, err := http.NewRequestWithContext(p.t.Context(), method, p.admin+path, nil)
	require.NoError(p.t, err)
	a, err := http.DefaultClient.Do(q)
	require.NoError(p.t, err)
	return a.StatusCode, bodyOf(p.t, a)
}

// statusOf sends a request as a client and returns the status of the response.
func statusOf(t *testing.T, url, client string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	q.Header.Set("X-Client", client)
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	_ = bodyOf(t, a)
	return a.StatusCode
}

// bodyOf reads the body of a response.
func bodyOf(t *testing.T, a *http.Response) string {
	t.Helper()
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return string(body)
}

// TestProxySignals: a changed file is read again, and so is one on SIGHUP; upgraded connections stay, also on SIGTERM until they
// end.
func TestProxySignals(t *testing.T) {
	t.Parallel()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = backend.Close() }()
	text := configOf("http://"+backend.Addr().String(), "global: {limit: concurrency %d}\n")
	s := startProxy(t, fmt.Sprintf(text, 1))
	c, err := net.Dial("tcp", s.address)
	require.NoError(t, err)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	b, err := backend.Accept()
	require.NoError(t, err)
	_, err = http.ReadRequest(bufio.NewReader(b))
	require.NoError(t, err)
	_, err = io.WriteString(b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_ = a.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode)

	require.NoError(t, os.WriteFile(s.file, fmt.Appendf(nil, text, 2), 0o600))
	assert.Contains(t, s.line(s.errs), "reloaded "+s.file)
	replace(t, s.file, "listen: [")
	assert.Contains(t, s.line(s.errs), "limits.yaml:1:9: ")
	assert.Contains(t, s.line(s.errs), "reload failed; keeping the previous configuration")
	s.signal(syscall.SIGHUP)
	assert.Contains(t, s.line(s.errs), "limits.yaml:1:9: ")
	assert.Contains(t, s.line(s.errs), "reload failed; keeping the previous configuration")

	s.signal(syscall.SIGTERM)
	assert.Contains(t, s.line(s.errs), "shutting down")
	_, err = io.WriteString(b, "late")
	require.NoError(t, err)
	got := make([]byte, 4)
	_, err = io.ReadFull(in, got)
	require.NoError(t, err)
	assert.Equal(t, "late", string(got))
	_ = b.Close()
	_ = c.Close()
	status, _, _ := s.ends()
	assert.Equal(t, 0, status)
}

// TestProxyDrains: after SIGTERM the proxy finishes in-flight requests, accepts no new ones and exits with status 0; a second signal ends it.
func TestProxyDrains(t *testing.T) {
	t.Parallel()
	came, hold := make(chan struct{}, 1), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-hold:
			_, _ = io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	}))
	defer backend.Close()
	for _, twice := range []bool{false, true} {
		s := startProxy(t, configOf(backend.URL, "global: {limit: concurrency 5}\n"))
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		<-came
		s.signal(syscall.SIGTERM)
		assert.Contains(t, s.line(s.errs), "shutting down")
		health, _ := s.admins("GET", "/healthz")
		assert.Equal(t, http.StatusServiceUnavailable, health)
		require.Eventually(t, func() bool {
			more, err := net.Dial("tcp", s.address)
			if err == nil {
				_ = more.Close()
			}
			return err != nil
		}, time.Minute, time.Millisecond)
		want := 0
		if twice {
			want = 143
			s.signal(syscall.SIGTERM)
		} else {
			hold <- struct{}{}
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			assert.Equal(t, "late", bodyOf(t, a))
		}
		status, _, _ := s.ends()
		assert.Equal(t, want, status)
		_ = c.Close()
	}
}

// TestManyConnections: open, idle connections cost no lease, and are served when they ask again. They are more than the usual
// soft limit on open files, 1024, allows; each end is in a process of its own, because a process has one such limit.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	n := 2000
	var files syscall.Rlimit // Go has raised the soft limit to the hard one
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if allowed := int(min(files.Cur, 1<<20)) - 100; allowed < n {
		t.Logf("NOT TESTED with %d connections: %d files may be open, as ulimit -Hn tells", n, files.Cur)
		n = allowed
	}
	require.Positive(t, n)
	s := startProxy(t, configOf(helloServer(t).URL, "global: {limit: concurrency 1 queue 10000, max-wait: 10m}\n"))
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	for range 2 {
		for _, c := range conns {
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
		}
		for i, c := range conns {
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, "connection %d", i)
			require.Equal(t, "hello", bodyOf(t, a))
		}
	}
	t.Logf("%d connections were held open", n)
	s.signal(syscall.SIGTERM)
	status, _, _ := s.ends()
	assert.Equal(t, 0, status)
}

// TestKeysOfAForeignServer: however a client spells the value by which the server knows it, no more requests pass than its limit.
func TestKeysOfAForeignServer(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: python3 is not installed")
	}
	server := exec.CommandContext(t.Context(), python, "testdata/shop.py")
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := startProxy(t, configOf("http://127.0.0.1:"+strings.TrimSpace(port), `
policies:
  query:  {key: "query:user_id", limit: fixed 2/1h}
  cookie: {key: "cookie:user_id", limit: fixed 2/1h}
  token:  {key: "header:Authorization", limit: fixed 2/1h}
routes: {/query: query, /cookie: cookie, /token: token}
`))
	for _, test := range []struct {
		path, header string
		spellings    []string // the server knows the client abc by each of them, at least without the proxy
	}{
		{"/query", "", []string{
			"user_id=abc", "user_id=%61bc", "user.id=abc", "user_id=r%d&user.id=abc", "user_id=r%d&%20user_id=abc", "user_id=r%d&user[id=abc",
			"user_id=r%d&user+id=abc", "user_id=r%d&user%5Bid=abc", "x%d&user_id=abc", "user_id=r%d&user_id%00x=abc",
		}},
		{"/cookie", "Cookie", []string{
			"user_id=abc", "user_id=%61bc", "user_id=a%62%63", `user_id="abc"`, "user_id=r%d; user.id=abc", "x%d=1; user_id=ab%63", "user_id=r%d;user[id=abc",
		}},
		{"/token", "Authorization", []string{"Bearer abc", "bearer abc", "BEARER  abc", "bEARER   abc", "Bearer\tabc", "Bearer abc x%d"}},
	} {
		passed := 0
		for i, spelling := range test.spellings {
			for j := range 3 {
				q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+test.path, nil)
				require.NoError(t, err)
				text := strings.ReplaceAll(spelling, "r%d", fmt.Sprintf("r%d", 10*i+j))
				text = strings.ReplaceAll(text, "x%d", fmt.Sprintf("x%d", 10*i+j))
				if test.header == "" {
					q.URL.RawQuery = text
				} else {
					q.Header.Set(test.header, text)
				}
				a, err := http.DefaultClient.Do(q)
				require.NoError(t, err)
				_ = a.Body.Close()
				if a.StatusCode == http.StatusOK {
					passed++
				}
			}
		}
		assert.Equal(t, 2, passed, test.path)
	}
	s.signal(syscall.SIGTERM)
	status, _, _ := s.ends()
	assert.Equal(t, 0, status)
}

// TestAccessLogThatStalls: a log without a reader holds up no request and no signal. Lost lines are reported, and a reader that
// comes back gets lines again.
func TestAccessLogThatStalls(t *testing.T) {
	t.Parallel()
	backend := helloServer(t)
	serves := func(t *testing.T, log string) (s *proxy, asks func(n int)) {
		s = startProxy(t, configOf(backend.URL, "access-log: "+log+"\nglobal: {limit: 1000000/s}\n"), "--grace", "1s")
		return s, func(n int) {
			t.Helper()
			for range n {
				q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
				require.NoError(t, err)
				q.Header.Set("User-Agent", strings.Repeat("u", 3000))
				a, err := http.DefaultClient.Do(q)
				require.NoError(t, err)
				_ = a.Body.Close()
				require.Equal(t, http.StatusOK, a.StatusCode)
			}
		}
	}
	ends := func(s *proxy) {
		s.t.Helper()
		s.signal(syscall.SIGHUP)
		s.signal(syscall.SIGTERM)
		status, _, errs := s.ends()
		assert.Equal(s.t, 0, status, errs)
	}

	t.Run("no reader", func(t *testing.T) {
		t.Parallel()
		named := fifo(t)
		s, asks := serves(t, named)
		asks(100)
		ends(s)
	})
	t.Run("stalled reader", func(t *testing.T) {
		t.Parallel()
		named := fifo(t)
		s, asks := serves(t, named)
		r, err := os.OpenFile(named, os.O_RDONLY, 0)
		require.NoError(t, err)
		asks(100)
		in := bufio.NewReader(r)
		for range 100 {
			_, err := in.ReadString('\n')
			require.NoError(t, err)
		}
		require.NoError(t, r.Close()) // and another one takes its place
		asks(1)
		r, err = os.OpenFile(named, os.O_RDONLY, 0)
		require.NoError(t, err)
		asks(1)
		_, err = bufio.NewReader(r).ReadString('\n')
		require.NoError(t, err)
		asks(1700) // beyond the queue
		assert.Regexp(t, `access log .*fifo: lost \d+ lines: it does not keep up; \d+ lines are waiting to be written`, s.line(s.errs))
		ends(s)
		_ = r.Close()
	})
	t.Run("closed stdout", func(t *testing.T) {
		t.Parallel()
		s, asks := serves(t, `"-"`)
		asks(5)
		ends(s)
	})
}
