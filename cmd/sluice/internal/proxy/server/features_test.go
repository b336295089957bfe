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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConnections: a connection beyond the limits is closed and takes nothing of the other limits, also if they are rates. One
// that ends makes room.
func TestConnections(t *testing.T) {
	b := backendOf(t, hello)
	to := "to: " + b.URL
	p := serves(t, nil, to+"\nconnections: 10/h burst 10\nconnections-per-ip: concurrency 2\n")
	served := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
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
	for range 20 {
		assert.False(t, served(dial(t, p.address)))
	}
	assert.Equal(t, 8, *p.state.Load().limits.Connections[0].States()[0].Available)
	assert.Equal(t, 1, strings.Count(p.said.String(), "connection from 127.0.0.1 rejected by connections-per-ip\n"))
	assert.Contains(t, p.scraped(), `sluice_partition_live{sluice_limiter_name="listen/connections-per-ip"} 1`)
	_, text := p.asksAdmin("GET", "/limits", "")
	var all map[string]policyReport
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	assert.Equal(t, "10/h burst 10", all["listen/connections"].Limit)
	require.Len(t, all["listen/connections-per-ip"].State, 1)
	assert.Equal(t, uint64(20), *all["listen/connections-per-ip"].State[0].Rejected)
	assert.Zero(t, *all["listen/connections"].State[0].Rejected)
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return served(dial(t, p.address)) }, time.Minute, time.Millisecond)
	p.becomes(to + "\nconnections: concurrency 10\n")
	for range 5 {
		assert.True(t, served(dial(t, p.address)))
	}
}

// upgraded returns a handler that switches to any protocol that a request names, as servers that speak h2c do, and sends back what
// comes after that. The response has the fields, each with its line end. Other requests get ok.
func upgraded(fields string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to := r.Header.Get("Upgrade")
		if to == "" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nUpgrade: "+to+"\r\n"+fields+"\r\n")
		_, _ = io.Copy(c, buf)
	}
}

// upgrade upgrades a new connection to a WebSocket. It returns the connection, what reads after the header of the response, and
// that header. fields are more of the request's header, each with its line end.
func upgrade(t *testing.T, address, path, fields string) (*net.TCPConn, *bufio.Reader, http.Header) {
	t.Helper()
	c := dial(t, address)
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+fields+"\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_ = a.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode)
	return c, in, a.Header
}

// echoes sends a line on an upgraded connection, and waits until it comes back.
func echoes(t *testing.T, c net.Conn, in *bufio.Reader, line string) {
	t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(t, err)
	got, err := in.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, line+"\n", got)
}

// TestUpgradesArePaidFor: the bytes of an upgraded connection are taken from the limits of its route, but not in shadow, and at its end
// it costs what the response that upgraded it has said.
func TestUpgradesArePaidFor(t *testing.T) {
	p := serves(t, upgraded("X-Cost: 40\r\n"), `
global: {limit: fixed 100/1h, cost: 5, settle: X-Cost, upload: 1000B/h burst 1000B}
policies:
  a: {key: ip, download: 1000B/h burst 1000B}
  b: {limit: concurrency 1, cost: 1, upload: 1B/h burst 1B, download: 1B/h burst 1B, shadow: true}
routes: {/: [a, b]}
`)
	c, in, header := upgrade(t, p.address, "/", "")
	assert.NotContains(t, header, "X-Cost")
	echoes(t, c, in, "ping")
	assert.Equal(t, 95, p.left(0))
	upload, _ := p.state.Load().limits.Global.Bytes()
	assert.Equal(t, 995, *upload.States()[0].Available)
	assert.Equal(t, []int{995}, p.leftOf("a", "127.0.0.1"))
	_, download := p.state.Load().limits.Policies[1].Bytes()
	assert.Equal(t, 1, *download.States()[0].Partitions)
	second, in, _ := upgrade(t, p.address, "/", "")
	echoes(t, second, in, "pong")
	assert.Contains(t, p.scraped(), `sluice_http_requests_total{sluice_http_policy="b",sluice_http_result="shadowed"} 1`)
	require.NoError(t, c.Close())
	p.eventually(100 - 40 - 5)
	require.Eventually(t, func() bool { return strings.Contains(p.scraped(), `code="101"} 1`) }, time.Minute, time.Millisecond)
	assert.NotContains(t, p.scraped(), "sluice_proxy_response_seconds_count", "how long it was upgraded is no time of a response")
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
	p := serves(t, nil, "to: "+b.URL+"\naccess-log: "+file+"\ntrusted: [127.0.0.0/8]\npolicies: {b: {limit: fixed 1/1h}}\nroutes: {/: [], /b: b}\n")
	for _, request := range []string{
		"GET /a%20b?c=\"d HTTP/1.0\r\nHost: h\r\nReferer: http://r/\"\r\nUser-Agent: me\\\t1\r\nX-Forwarded-For: 2001:db8::1:2\r\nAuthorization: Basic YSBiOnB3",
		"GET /b HTTP/1.0\r\nHost: h",
		"GET /b HTTP/1.0\r\nHost: h",
		"GET /x/../b HTTP/1.0\r\nHost: h",
		"GET /leaves HTTP/1.0\r\nHost: h",
	} {
		p.raw(request+"\r\n\r\n", strings.Contains(request, "leaves"))
	}
	lines := logged(t, file, 5)
	require.Len(t, lines, 5)
	const at = ` \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] `
	for i, want := range []string{
		`2001:db8::1:2 - a\\x20b` + at + `"GET /a%20b\?c=\\x22d HTTP/1.0" 201 5 "http://r/\\x22" "me\\x5C\\x091"`,
		`127\.0\.0\.1 - -` + at + `"GET /b HTTP/1\.0" 201 5 "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /b HTTP/1\.0" 429 18 "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /x/\.\./b HTTP/1\.0" 307 \d+ "-" "-"`,
		`127\.0\.0\.1 - -` + at + `"GET /leaves HTTP/1\.0" 499 0 "-" "-"`,
	} {
		assert.Regexp(t, "^"+want+"$", lines[i])
	}
	require.NoError(t, os.Rename(file, file+".1"))
	p.access.Reopen()
	p.raw("GET / HTTP/1.0\r\nHost: h\r\n\r\n", false)
	assert.Len(t, logged(t, file, 1), 1)
	assert.Len(t, logged(t, file+".1", 5), 5)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	p.access.Reopen()
	require.Eventually(t, func() bool {
		return strings.Contains(p.said.String(), "cannot reopen the access log, still writing to the old file")
	}, time.Minute, time.Millisecond)
}
