package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOddAnswers: the proxy does not guess the type of a response, and an invalid status is a 502.
func TestOddAnswers(t *testing.T) {
	var status string
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 13\r\n\r\n<html></html>")
		_ = c.Close()
	})
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\n")
	for _, test := range []struct {
		status, kind string
		want         int
	}{
		{"200 OK", "", 200},
		{"999 Odd", "", 999},
		{"099 Odd", "text/plain; charset=utf-8", http.StatusBadGateway},
	} {
		status = test.status
		a, _ := p.gets("GET", "/")
		assert.Equal(t, test.want, a.StatusCode)
		assert.Equal(t, test.kind, strings.Join(a.Header["Content-Type"], " "))
	}
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
		upgraded("")(w, r)
	})
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: concurrency 2, count: failures, download: 1MiB/s}\nheaders: draft-11\n")
	c, in, _ := upgrade(t, p.address, "/", "")
	echoes(t, c, in, "ping")
	p.becomes("to: " + b.URL + "\nglobal: {limit: concurrency 1, count: failures}\n")
	echoes(t, c, in, "still")
	status, _ := p.asks("GET", "/events")
	assert.Equal(t, http.StatusTooManyRequests, status, "the upgraded connection holds the only lease")
	_ = c.Close()
	p.eventually(1)

	ctx, cancel := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/events", nil)
	require.NoError(t, err)
	events, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	line, err := bufio.NewReader(events.Body).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "one\n", line, "before the response ends")
	cancel()
	_ = events.Body.Close()
	p.eventually(1)
}

// TestHalfClosedUpgrade: the backend may end its side of an upgraded connection before the client, and shutdown waits for the
// client.
func TestHalfClosedUpgrade(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, buf)
	})
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\n")
	c, r, _ := upgrade(t, p.address, "/", "")
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "first", string(got))
	require.NoError(t, p.drain(20*time.Millisecond, nil))
	assert.Contains(t, p.said.String(), "grace period of 20ms expired", "shutdown waits for upgraded connections")
	_ = c.Close()
	require.NoError(t, p.drain(time.Minute, nil))
	assert.Contains(t, p.said.String(), "all in-flight requests were served")
	assert.Equal(t, 1, p.left(0))
}

// TestForwardedHeaders: what a trusted proxy says of its client's request is kept, and what any other client says is not. Headers
// of the connection, and those whose names may stand for others, do not pass.
func TestForwardedHeaders(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.URL.String())
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X_forwarded_for", "Forwarded", "X-Hop", "X-Real-Ip"} {
			_, _ = fmt.Fprintf(w, " %q", r.Header[name])
		}
	})
	own := strings.TrimPrefix(b.URL, "http://")
	const front = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\nX-Real-IP: 203.0.113.9\r\n"
	for _, test := range []struct{ setting, fields, want string }{
		{"", "", own + ` /base/a%2Fb?x=1;y ["127.0.0.1"] ["http"] ["h"] [] [] [] []`},
		{"", front, own + ` /base/a%2Fb?x=1;y ["127.0.0.1"] ["http"] ["h"] [] [] [] []`},
		{"", "Connection: X-Hop\r\nX-Hop: hop\r\nX_Forwarded_For: 1.2.3.4\r\n", own + ` /base/a%2Fb?x=1;y ["127.0.0.1"] ["http"] ["h"] [] [] [] []`},
		{"host: keep\n", "", `h /base/a%2Fb?x=1;y ["127.0.0.1"] ["http"] ["h"] [] [] [] []`},
		{"underscores: true\n", "X_Forwarded_For: 1.2.3.4\r\n", own + ` /base/a%2Fb?x=1;y ["127.0.0.1"] ["http"] ["h"] ["1.2.3.4"] [] [] []`},
		{"trusted: 127.0.0.1\n", front, own + ` /base/a%2Fb?x=1;y ["203.0.113.9, 127.0.0.1"] ["https"] ["shop.example"] [] [] [] ["203.0.113.9"]`},
		{"trusted: 127.0.0.1\n", "X-Forwarded-Proto: https\r\nForwarded: proto=https\r\n", own + ` /base/a%2Fb?x=1;y ["127.0.0.1"] ["https"] ["h"] [] [] [] []`},
	} {
		p := serves(t, nil, "to: "+b.URL+"/base\n"+test.setting)
		got := p.raw("GET /a%2Fb?x=1;y HTTP/1.0\r\nHost: h\r\n"+test.fields+"\r\n", false)
		assert.Equal(t, test.want, got[strings.LastIndex(got, "\n")+1:], "%q", test)
	}
}

// TestTrailersThatAreNone: a trailer passes only if a header of that name would, and if it changes nothing that was decided.
func TestTrailersThatAreNone(t *testing.T) {
	to, came := noting(t, "Transfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nok\r\n0\r\nX-End: 1\r\nSet-Cookie: a=b\r\nLocation: /x\r\n\r\n")
	p := serves(t, nil, "to: "+to+"\nglobal: {key: 'header:X-Api-Key', limit: fixed 5/1h}\n")
	got := p.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Once: 1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nhi\r\n0\r\n"+
		"X-Sum: 7\r\nX-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nIf-Match: 1\r\nHost: evil\r\nX-Api-Key: other\r\nX-Once: 2\r\nAuthorization: me\r\n\r\n", false)
	_, trailer, _ := strings.Cut(<-came, "\r\n0\r\n")
	assert.Equal(t, "X-Sum: 7\r\n\r\n", trailer)
	_, trailer, _ = strings.Cut(got, "\r\n0\r\n")
	assert.Equal(t, "X-End: 1\r\n\r\n", trailer)
}

// TestBackendHangs: it is 504, and the lease goes back, whether the backend does not respond, does not take the body, or
// stops in the middle.
func TestBackendHangs(t *testing.T) {
	hung := make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		<-hung
	})
	t.Cleanup(func() { close(hung) }) // before the backend is closed
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\nbackend-timeout: 50ms\n")
	status, _ := p.asks("GET", "/")
	assert.Equal(t, http.StatusGatewayTimeout, status)
	a, err := http.Post("http://"+p.address, "text/plain", io.LimitReader(zeros{}, 64<<20))
	require.NoError(t, err)
	_ = a.Body.Close()
	assert.Equal(t, http.StatusGatewayTimeout, a.StatusCode)
	a, err = http.Get("http://" + p.address + "/half")
	require.NoError(t, err)
	body, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	assert.Equal(t, "half", string(body))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	p.eventually(1)
}

// zeros is a text without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

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
