package server

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raw sends bytes on a connection of its own, ends its side if it is told to, and returns all that comes.
func (r *running) raw(text string, half bool) string {
	r.t.Helper()
	c := dial(r.t, r.address)
	_, err := io.WriteString(c, text)
	require.NoError(r.t, err)
	if half {
		require.NoError(r.t, c.CloseWrite())
	}
	require.NoError(r.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	got, _ := io.ReadAll(c)
	return string(got)
}

func statusIn(response string) string {
	_, after, _ := strings.Cut(response, " ")
	status, _, _ := strings.Cut(after, " ")
	return status
}

// TestClientsThatDisconnect: under count: failures a client that does not wait for the response has used its permit.
func TestClientsThatDisconnect(t *testing.T) {
	came := make(chan struct{}, 100)
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		hello(w, r)
	})
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: sliding 2/1m, count: failures}\n")
	one := func() limiter { return p.limiter(0) }
	for i := range 2 {
		c := dial(t, p.address)
		_, err := io.WriteString(c, "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
		require.NoError(t, err)
		<-came
		require.NoError(t, c.Close())
		require.Eventually(t, func() bool { return one().Statistics().Granted == uint64(i+1) }, time.Minute, time.Millisecond)
	}
	require.NoError(t, p.drain(time.Minute, nil)) // until both have ended
	assert.Zero(t, one().Available(), "two tries have been made")

	p = serves(t, nil, "to: "+b.URL+"\nglobal: {limit: sliding 2/1m, count: failures}\n")
	for range 5 {
		status, _ := p.asks("GET", "/")
		assert.Equal(t, http.StatusOK, status, "success counts as before")
	}
	for _, broken := range []string{"Transfer-Encoding: chunked\r\n\r\n4\r\nuser\r\nZ\r\n", "Content-Length: 9\r\n\r\nuser"} {
		p.raw("POST / HTTP/1.1\r\nHost: h\r\n"+broken, true)
	}
	require.Eventually(t, func() bool { return one().Available() == 0 }, time.Minute, time.Millisecond)
}

// TestHalfClose: a client that ends its side and still reads is not told of a success that there was none of.
func TestHalfClose(t *testing.T) {
	b := backendOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p := serves(t, nil, "to: "+b.URL+"\n")
	for _, version := range []string{"1.0", "1.1"} {
		assert.Empty(t, p.raw("GET / HTTP/"+version+"\r\nHost: h\r\n\r\n", true))
	}
}

// TestKeysWithoutRoom: keys that find no room share a limit with a few others, and not with all: addresses with those of their
// network. It is refunded, settled, reset and updated as any other.
func TestKeysWithoutRoom(t *testing.T) {
	p := serves(t, costly, "keys: 2\nglobal: {key: 'header:X-Key', limit: fixed 1/1h}\n")
	passed := 0
	for i := range 100 {
		status, _ := p.asks("GET", "/", "X-Key", strconv.Itoa(i))
		if status == http.StatusOK {
			passed++
		}
		status, _ = p.asks("GET", "/", "X-Key", strconv.Itoa(i))
		assert.Equal(t, http.StatusTooManyRequests, status)
	}
	assert.Greater(t, passed, 80, "of 100, in 1024 groups")
	assert.Equal(t, 2, *p.state.Load().limits.Global.Requests().States()[0].Partitions)
	_, body := p.asksAdmin("POST", "/limits/global/reset?key=99", "")
	assert.JSONEq(t, `{"reset": 1}`, body)
	assert.Equal(t, 1, p.grants(2, "/", "X-Key", "99"))
	assert.Zero(t, p.grants(1, "/", "X-Key", "0"), "another key stays as it is")
	p.becomes("keys: 2\nglobal: {key: 'header:X-Key', limit: fixed 5/1h, count: failures}\n")
	assert.Equal(t, 10, p.grants(10, "/", "X-Key", "99"))
	p.becomes("keys: 2\nglobal: {key: 'header:X-Key', limit: fixed 5/1h, cost: 5, settle: X-Cost}\n")
	assert.Equal(t, 3, p.grants(3, "/?header=0", "X-Key", "fresh"))
	p = serves(t, hello, "trusted: [127.0.0.0/8]\nkeys: 1\nglobal: {key: ip, limit: fixed 1/1h}\n")
	for _, client := range []string{"203.0.113.1", "192.0.2.1", "198.51.100.1"} {
		assert.Equal(t, 1, p.grants(2, "/", "X-Forwarded-For", client), client)
	}
	assert.Zero(t, p.grants(1, "/", "X-Forwarded-For", "192.0.2.2"))
}

// noting starts a backend that notes what comes on each connection, byte by byte, and then sends a response with the text, after
// informational ones.
func noting(t *testing.T, text string, informational ...string) (url string, came <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	all := make(chan string, 100)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer func() { _ = c.Close() }()
				var b []byte
				var err error
				for p := make([]byte, 4096); err == nil; {
					if bytes.Contains(b, []byte("\r\n\r\n")) { // what comes behind the header may never come
						_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
					}
					var n int
					n, err = c.Read(p)
					b = append(b, p[:n]...)
				}
				all <- string(b)
				_, _ = io.WriteString(c, strings.Join(informational, "")+"HTTP/1.1 200 OK\r\nConnection: close\r\n"+text)
			}()
		}
	}()
	return "http://" + l.Addr().String(), all
}

// TestSmuggling: what a client writes as the length of a body, a backend gets one request for each that was limited, with one
// length. The backend notes what comes, byte by byte.
func TestSmuggling(t *testing.T) {
	to, came := noting(t, "Content-Length: 0\r\n\r\n")
	const inner = "GET /inner HTTP/1.1\r\nHost: h\r\n\r\n"
	p := serves(t, nil, "to: "+to+"\npolicies: {once: {limit: fixed 1/1h}}\nroutes: {/inner: once, /: []}\n")
	p.asks("GET", "/inner")
	<-came // the only one
	for _, test := range []string{
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n" + inner + "\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + inner,
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + inner,
		"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + inner,
		"Content-Length: 0\r\nContent-Length: 33\r\n\r\n" + inner,
		"Content-Length: +33\r\n\r\n" + inner,
	} {
		p.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+test, false)
		for len(came) > 0 {
			head, body, _ := strings.Cut(<-came, "\r\n\r\n")
			assert.True(t, strings.HasPrefix(head, "POST / HTTP/1.1\r\n"), "%q: %q", test, head)
			lengths := strings.Count(strings.ToLower(head), "content-length:") + strings.Count(strings.ToLower(head), "transfer-encoding:")
			assert.LessOrEqual(t, lengths, 1, "%q: %q", test, head)
			if strings.Contains(body, "/inner") {
				assert.Contains(t, strings.ToLower(head), "transfer-encoding: chunked", "%q: it is in the body", test)
				assert.True(t, strings.HasPrefix(body, "21\r\n"), "%q: %q", test, body)
			}
		}
	}
}
