package server

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnreadBody: a connection continues after a response that did not wait for the request's body, if the body is there.
func TestUnreadBody(t *testing.T) {
	p := serves(t, hello, "")
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
		c := dial(t, p.address)
		in := bufio.NewReader(c)
		for range 5 {
			a, got := sends(t, c, in, "POST / HTTP/1.1\r\nHost: h\r\n"+body)
			assert.Equal(t, "hello", got)
			assert.False(t, a.Close)
		}
	}
}

// TestMissingBody: after the response to a request that is rejected, and whose body has not come or is malformed, the connection is closed:
// what still comes is no request.
func TestMissingBody(t *testing.T) {
	p := serves(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the backend gets %s", r.URL) },
		"policies: {a: {limit: blocked}}\nroutes: {/first: a, /second: []}\n")
	for _, body := range []string{
		"Content-Length: 3\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"Transfer-Encoding: chunked\r\n\r\nmalformed\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n",
		fmt.Sprintf("Content-Length: %d\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n", 1<<20),
	} {
		got := p.raw("POST /first HTTP/1.1\r\nHost: h\r\n"+body, false)
		assert.Equal(t, []string{"429", "1"}, []string{statusIn(got), strconv.Itoa(strings.Count(got, "HTTP/1.1 "))}, "%q", got)
	}
	responses := 0
	for _, m := range regexp.MustCompile(`(?m)^sluice_proxy_responses_total{.*} (\d+)$`).FindAllStringSubmatch(p.scraped(), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		responses += n
	}
	assert.Equal(t, 4, responses, "what still comes is not counted")
}

// TestPanicsAreLogged: a panic of net/http's, or of a handler, is the operator's to see. The faults of clients are not.
func TestPanicsAreLogged(t *testing.T) {
	p := serves(t, hello, "")
	p.forward = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("an accident") })
	p.reload(true)
	before := p.said.String()
	p.raw("malformed, and as long as the preface of HTTP/2\r\n\r\n", false)
	assert.Equal(t, before, p.said.String())
	assert.Empty(t, p.raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n", false))
	assert.True(t, strings.HasPrefix(p.said.String(), before+"http: panic serving "), p.said.String())
	assert.Contains(t, p.said.String(), "an accident")
}

// countedBody is a body of a request that counts what the client has sent.
type countedBody struct {
	io.Reader

	sent atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.sent.Add(int64(n))
	return n, err
}

// stops waits until no more of the body is sent.
func (b *countedBody) stops(t *testing.T) {
	t.Helper()
	before, since := int64(-1), time.Now()
	require.Eventually(t, func() bool {
		if now := b.sent.Load(); now != before || now == 0 {
			before, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	}, time.Minute, time.Millisecond)
}

// TestBodiesOfAConnection: over HTTP/2 the body of a request that waits does not keep back the body of the request that has the only
// permit, although both come over one connection.
func TestBodiesOfAConnection(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	p := serves(t, nil, "to: "+b.URL+"\npolicies: {one: {limit: concurrency 1 queue 10, max-wait: 1m}}\nroutes: {/: one}\n")
	c := h2cClient(t)
	posts := func(body io.Reader) <-chan string {
		done := make(chan string, 1)
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+"/", body)
		require.NoError(t, err)
		go func() {
			a, err := c.Do(q)
			if err != nil {
				done <- err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, a.Body)
			_ = a.Body.Close()
			done <- a.Status
		}()
		return done
	}
	from, to := io.Pipe()
	holder := posts(from)
	_, err := to.Write(make([]byte, 1000))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.left(0) == 0 }, time.Minute, time.Millisecond)
	waiting := &countedBody{Reader: bytes.NewReader(make([]byte, 3<<20))}
	waiter := posts(waiting)
	waiting.stops(t) // what the proxy takes of it is full
	go func() {
		_, _ = to.Write(make([]byte, 100<<10))
		_ = to.Close()
	}()
	assert.Equal(t, "200 OK", <-holder)
	assert.Equal(t, "200 OK", <-waiter, "it waited for the permit, and not for max-wait")
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

// TestHTTP2: over TLS, and without where the client knows that it may. The files of TLS are read with the configuration, and a
// limit is changed whatever is in them.
func TestHTTP2(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	for _, test := range []struct{ scheme, tls string }{
		{"http", ""},
		{"https", "tls: {cert: " + cert + ", key: " + key + "}\n"},
	} {
		p := serves(t, hello, ""+test.tls+"global: {key: ip, limit: fixed 1/1h}\n")
		if test.tls != "" {
			write(t, cert, "broken")
			p.reload(true)
			assert.Contains(t, p.said.String(), "limits.yaml:3:13: tls: failed to find any PEM data")
		}
		_, _ = p.asksAdmin("PUT", "/limits/global", `{"limit": "fixed 2/1h"}`)
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

// TestStalledWrites: who takes its response slowly is served, and who takes nothing of it is cut off.
func TestStalledWrites(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * stallTime} { // between the write that the client reads and the one that it does not
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			c := &clientConn{Conn: ours}
			go func() { _, _ = io.ReadFull(theirs, make([]byte, 2)) }()
			_, err := c.Write([]byte("ok"))
			require.NoError(t, err)
			time.Sleep(pause)
			start := time.Now()
			_, err = c.Write([]byte("more"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, stallTime, time.Since(start))
		})
	}
}

// TestStalledBody: a client that stops amid a body gets 408, and one whose body was complete waits for its response as long as that takes. A
// transport that still reads after the response reads nothing of the next request.
func TestStalledBody(t *testing.T) {
	for _, test := range []struct {
		sent   string
		status int
		after  time.Duration
	}{{"half", http.StatusRequestTimeout, stallTime}, {"complete", http.StatusOK, 10 * stallTime}} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			end := make(chan struct{})
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				x := newExchange(w, r)
				b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), request: x.request}
				if _, err := io.ReadAll(b); err != nil {
					w.WriteHeader(statusOf(err))
				} else {
					time.Sleep(10 * stallTime)
					assert.NoError(t, r.Context().Err())
				}
				b.end()
				_, err := b.Read(make([]byte, 1))
				assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			})}
			l := &single{c: ours, end: end}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			start := time.Now()
			_, err := io.WriteString(theirs, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"+test.sent)
			require.NoError(t, err)
			a, err := http.ReadResponse(bufio.NewReader(theirs), nil)
			require.NoError(t, err)
			assert.Equal(t, test.status, a.StatusCode)
			assert.Equal(t, test.after, time.Since(start))
			require.NoError(t, theirs.Close())
			require.NoError(t, s.Close())
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}

// single is a listener of one connection.
type single struct {
	c   net.Conn
	end chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	if c := l.c; c != nil {
		l.c = nil
		return c, nil
	}
	<-l.end
	return nil, net.ErrClosed
}

func (l *single) Close() error {
	close(l.end)
	return nil
}

func (l *single) Addr() net.Addr { return &net.TCPAddr{} }
