package server

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
)

func TestHostIsPassedOn(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	own := strings.TrimPrefix(b.URL, "http://")
	p := serves(t, "to: "+b.URL+"\n")
	asks := func() string {
		got := p.raw("GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n", false)
		return got[strings.LastIndex(got, "\n")+1:]
	}
	assert.Equal(t, own, asks())
	p.becomes("to: " + b.URL + "\nhost: keep\n")
	assert.Equal(t, "shop.example", asks())
	p.becomes("to: " + b.URL + "\nhost: backend\n")
	assert.Equal(t, own, asks())
}

// TestConnections: a connection beyond the limits is closed, and one that ends makes room.
func TestConnections(t *testing.T) {
	b := backendOf(t, hello)
	to := "to: " + b.URL
	p := serves(t, to+"\nconnections: concurrency 10\nconnections-per-ip: concurrency 2\n")
	served := func(c net.Conn) bool {
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if err != nil {
			return false
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		_ = a.Body.Close()
		return a.StatusCode == http.StatusOK
	}
	first, second := dial(t, p.address), dial(t, p.address)
	assert.True(t, served(first))
	assert.True(t, served(second))
	assert.False(t, served(dial(t, p.address)))
	assert.Equal(t, 8, *p.state.Load().limits.Connections[0].State().Available, "what the second refuses the first has back")
	assert.Contains(t, p.scraped(), `sluice_partition_live{sluice_limiter_name="listen/connections-per-ip"} 1`)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", p.address)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		return served(c)
	}, time.Minute, time.Millisecond)
	p.becomes(to + "\nconnections: concurrency 10\n")
	for range 5 {
		assert.True(t, served(dial(t, p.address)))
	}
}

// TestConnectionsOfOneClient: a connection that one limit refuses takes nothing of the others, also if they are rates.
func TestConnectionsOfOneClient(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+"\nconnections: 10/h burst 10\nconnections-per-ip: concurrency 2\n")
	for range 2 { // it stays open
		c := dial(t, p.address)
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		_, err = http.ReadResponse(bufio.NewReader(c), nil) // closed with the connection
		require.NoError(t, err)
	}
	for range 20 {
		_, err := io.ReadAll(dial(t, p.address))
		if err != nil {
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
	}
	assert.Equal(t, 8, *p.state.Load().limits.Connections[0].State().Available)
	assert.Equal(t, 1, strings.Count(p.said.String(), "connection from 127.0.0.1 rejected by connections-per-ip (0 more since the last message)\n"))
	_, text := p.asksAdmin("GET", "/limits", "")
	var all map[string]policyReport
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	assert.Equal(t, "10/h burst 10", all["listen/connections"].Limit)
	require.Len(t, all["listen/connections-per-ip"].State, 1)
	assert.Equal(t, uint64(20), *all["listen/connections-per-ip"].State[0].Rejected)
	assert.Zero(t, *all["listen/connections"].State[0].Rejected)
}

// TestUpgradedBytes: upload and download hold for what is upgraded, to the instant.
func TestUpgradedBytes(t *testing.T) {
	for _, upload := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			kind := "download"
			if upload {
				kind = "upload"
			}
			c, err := config.Parse("limits.yaml", []byte(listen+"to: 127.0.0.1:1\nglobal: {"+kind+": 1MB/s}\n"))
			require.NoError(t, err)
			set, err := limits.New(c, nil, limits.NewKeys(1, nil), new(limits.Set))
			require.NoError(t, err)
			under, far := net.Pipe()
			defer func() { _ = far.Close() }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			require.NoError(t, err)
			a := &http.Response{Request: r, Body: under}
			x := &exchange{request: r, endpoint: newEndpoint(set.Policies, nil, nil)}
			x.throttle(a)
			body := a.Body.(io.ReadWriteCloser)
			from, to := far, io.ReadWriter(body)
			start := time.Now()
			go func() {
				if upload {
					_, _ = to.Write(make([]byte, 3_000_000))
				} else {
					_, _ = from.Write(make([]byte, 3_000_000))
				}
				_ = body.Close()
			}()
			var n int64
			if upload {
				n, _ = io.Copy(io.Discard, from)
			} else {
				n, _ = io.CopyN(io.Discard, to, 3_000_000)
			}
			assert.Equal(t, int64(3_000_000), n)
			assert.Equal(t, 2990*time.Millisecond, time.Since(start), "10 ms of it immediately")
		})
	}
}

// upgraded returns a handler that upgrades and sends back what comes. The upgrading response has the fields, each with its line end.
func upgraded(fields string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+fields+"\r\n")
		_, _ = io.Copy(c, buf)
	}
}

// upgrade upgrades a new connection to the proxy. It returns the header of the response, and what reads after it.
func upgrade(t *testing.T, address string) (net.Conn, *bufio.Reader, http.Header) {
	t.Helper()
	c := dial(t, address)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_ = a.Body.Close()
	return c, in, a.Header
}

// TestUpgradesArePaidFor: the bytes of an upgraded connection are taken from the limits of its route.
func TestUpgradesArePaidFor(t *testing.T) {
	b := backendOf(t, upgraded(""))
	p := serves(t, "to: "+b.URL+"\nglobal: {upload: 1000/h burst 1000}\npolicies: {a: {key: ip, download: 1000/h burst 1000}}\nroutes: {/: a}\n")
	c, in, _ := upgrade(t, p.address)
	_, err := io.WriteString(c, "ping\n")
	require.NoError(t, err)
	_, err = in.ReadString('\n')
	require.NoError(t, err)
	upload, _ := p.state.Load().limits.Global.Bytes()
	assert.Equal(t, 995, *upload.State().Available)
	assert.Equal(t, []int{995}, p.leftOf("a", "127.0.0.1"))
	_, download := p.state.Load().limits.Policies[1].Bytes()
	assert.Equal(t, 1, *download.State().Partitions)
}

// TestNothingToThrottle: without limits on bytes, or without an upgrade, nothing is wrapped.
func TestNothingToThrottle(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	require.NoError(t, err)
	body := struct{ io.ReadWriteCloser }{}
	a := &http.Response{Request: r, Body: body}
	exchangeOf(t.Context()).throttle(a)
	assert.Equal(t, body, a.Body)
	under, far := net.Pipe()
	defer func() { _ = far.Close() }()
	require.ErrorIs(t, (&throttled{under: under}).CloseWrite(), http.ErrNotSupported)
	require.NoError(t, (&throttled{under: under}).Close())
}

// TestAccessLog: each request has a line in the combined format, nothing that a client sends breaks it, and a renamed
// file is left when the log is opened again.
func TestAccessLog(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leaves" {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "hello")
	})
	file := filepath.Join(t.TempDir(), "access.log")
	p := serves(t, "to: "+b.URL+"\naccess-log: "+file+"\ntrusted: [127.0.0.0/8]\npolicies: {b: {limit: fixed 1/1h}}\nroutes: {/: [], /b: b}\n")
	for _, request := range []string{
		"GET /a%20b?c=\"d HTTP/1.0\r\nHost: h\r\nReferer: http://r/\"\r\nUser-Agent: me\\\t1\r\nX-Forwarded-For: 2001:db8::1:2\r\nAuthorization: Basic YSBiOnB3",
		"GET /b HTTP/1.0\r\nHost: h",
		"GET /b HTTP/1.0\r\nHost: h",
		"GET /x/../b HTTP/1.0\r\nHost: h",
		"GET /leaves HTTP/1.0\r\nHost: h",
	} {
		p.raw(request+"\r\n\r\n", strings.Contains(request, "leaves"))
	}
	lines := func(name string) (all []string) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	require.Eventually(t, func() bool { return len(lines(file)) == 5 }, time.Minute, time.Millisecond)
	const at = ` \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] `
	for i, want := range []string{
		`2001:db8::1:2 - a\\x20b` + at + `"GET /a%20b\?c=\\x22d HTTP/1.0" 201 5 "http://r/\\x22" "me\\x5C\\x091"`,
		`127\.0\.0\.1 - -` + at + `"GET /b HTTP/1\.0" 201 5 "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /b HTTP/1\.0" 429 18 "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /x/\.\./b HTTP/1\.0" 307 \d+ "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /leaves HTTP/1\.0" 499 0 "-" "-"`,
	} {
		assert.Regexp(t, "^"+want+"$", lines(file)[i])
	}
	require.NoError(t, os.Rename(file, file+".1"))
	p.access.reopen()
	p.raw("GET / HTTP/1.0\r\nHost: h\r\n\r\n", false)
	require.Eventually(t, func() bool {
		_, err := os.Stat(file)
		return err == nil && len(lines(file)) == 1
	}, time.Minute, time.Millisecond)
	assert.Len(t, lines(file+".1"), 5)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	p.access.reopen()
	require.Eventually(t, func() bool {
		return strings.Contains(p.said.String(), "cannot reopen the access log, still writing to the old file")
	}, time.Minute, time.Millisecond)
}
