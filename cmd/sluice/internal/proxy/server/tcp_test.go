package server

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echoes listens, and sends what it gets back once all of it is there.
func echoes(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				b, _ := io.ReadAll(c) // until the other end has ended its half
				_, _ = c.Write(b)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func echo(t *testing.T, c *net.TCPConn, text string) string {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

func TestTCP(t *testing.T) {
	to := echoes(t)
	for _, limits := range []string{
		"",
		"global: {limit: concurrency 2}\n",
		"global: {key: ip, limits: [concurrency 2, 1000/s], upload: 100MB/s, download: 100MB/s}\n",
		"global: {upload: 100MB/s}\n",
	} {
		p := serves(t, true, "to: "+to+"\n"+limits)
		assert.Equal(t, "hello", echo(t, dial(t, p.address), "hello"), "%s", limits)
	}
}

func TestTCPRefusesAndGivesBack(t *testing.T) {
	p := serves(t, true, "to: "+echoes(t)+"\nglobal: {limit: concurrency 1}\n")
	first := dial(t, p.address)
	p.eventually(0)
	b, err := io.ReadAll(dial(t, p.address)) // closed without a word, or reset
	if err == nil {
		assert.Empty(t, b)
	}
	assert.Equal(t, "hello", echo(t, first, "hello"))
	p.eventually(1)
	assert.Equal(t, "again", echo(t, dial(t, p.address), "again"))
}

// TestTCPIsCounted: connections have the metrics that requests have.
func TestTCPIsCounted(t *testing.T) {
	p := serves(t, true, "to: "+echoes(t)+"\nglobal: {limit: concurrency 1}\n")
	shows := func(lines ...string) {
		t.Helper()
		metrics := p.scraped()
		for _, line := range lines {
			assert.Contains(t, metrics, line+"\n")
		}
	}
	c := dial(t, p.address)
	p.eventually(0)
	_, err := io.WriteString(c, "half")
	require.NoError(t, err)
	_, _ = io.ReadAll(dial(t, p.address)) // refused; the first is counted by then
	shows(`sluice_http_active_request_leases{sluice_http_policy="global"} 1`,
		`sluice_http_requests_total{sluice_http_policy="global",sluice_http_result="acquired"} 1`,
		`sluice_http_requests_total{sluice_http_policy="global",sluice_http_result="global_limiter"} 1`)
	assert.Equal(t, "halfhello", echo(t, c, "hello"))
	p.eventually(1)
	require.NoError(t, p.server.Close()) // which waits for what is served
	shows(`sluice_http_active_request_leases{sluice_http_policy="global"} 0`,
		`sluice_http_request_lease_duration_seconds_count{sluice_http_policy="global"} 1`)
}

func TestTCPWaits(t *testing.T) {
	p := serves(t, true, "to: "+echoes(t)+"\nglobal: {limit: concurrency 1 queue 1, max-wait: 1m}\n")
	first := dial(t, p.address)
	p.eventually(0) // or the second might be served first
	second := dial(t, p.address)
	assert.Equal(t, "first", echo(t, first, "first"))
	assert.Equal(t, "second", echo(t, second, "second"))
}

func TestTCPKeysThatConnectionsDoNotHave(t *testing.T) {
	p := serves(t, true, "to: 127.0.0.1:1\n")
	p.becomes("to: 127.0.0.1:1\nglobal: {key: host, limit: 1/s}\n")
	assert.Contains(t, p.said.String(), "limits.yaml:3:10: global: a connection has no host")
	b, err := io.ReadAll(dial(t, p.address)) // no backend
	if err == nil {
		assert.Empty(t, b)
	}
}

// lateListener accepts a connection in the instant in which it is closed.
type lateListener struct {
	net.Listener

	close  func()
	closed chan struct{}
	late   chan net.Conn
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.closed
	if c, ok := <-l.late; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *lateListener) Close() error {
	l.close()
	return nil
}

// TestAcceptedAtTheEnd: a connection that is accepted while the server ends is not served, as nobody would wait for it.
func TestAcceptedAtTheEnd(t *testing.T) {
	p := serves(t, true, "to: 127.0.0.1:1\nglobal: {limit: fixed 10/1h}\n")
	ours, theirs := net.Pipe()
	closed := make(chan struct{})
	l := &lateListener{close: sync.OnceFunc(func() { close(closed) }), closed: closed, late: make(chan net.Conn, 1)}
	l.late <- ours
	close(l.late)
	s := newTCP(p.Proxy)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	require.NoError(t, s.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.NoError(t, s.Close())
	_, err := theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	assert.Zero(t, p.limiter(0).Statistics().Granted)
}
