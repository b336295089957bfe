package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
)

// webOf serves h as a proxy serves its requests.
func webOf(t *testing.T, h http.HandlerFunc) (address string, said *lockedText, p *Proxy) {
	t.Helper()
	said = new(lockedText)
	p = &Proxy{say: said.say, metrics: newMetrics()}
	p.state.Store(&state{handler: h, limits: new(limits.Set)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := p.newServer()
	served := make(chan error, 1)
	admitted := listener{l, p}
	go func() { served <- w.Serve(admitted) }()
	t.Cleanup(func() {
		require.NoError(t, w.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return l.Addr().String(), said, p
}

// TestUnreadBody: a connection continues after a response that did not wait for the request's body, if the body is
// there.
func TestUnreadBody(t *testing.T) {
	address, said, _ := webOf(t, hello)
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
		c := dial(t, address)
		in := bufio.NewReader(c)
		for range 5 {
			a, got := sends(t, c, in, "POST / HTTP/1.1\r\nHost: h\r\n"+body)
			assert.Equal(t, "hello", got)
			assert.False(t, a.Close)
		}
	}
	assert.Empty(t, said.String())
}

// TestMissingBody: after the response to a request whose body has not come, or is malformed, the connection is
// closed: what still comes is no request.
func TestMissingBody(t *testing.T) {
	served := make(chan string, 10)
	address, said, p := webOf(t, func(w http.ResponseWriter, r *http.Request) {
		served <- r.URL.Path
		hello(w, r)
	})
	for _, body := range []string{
		"Content-Length: 3\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"Transfer-Encoding: chunked\r\n\r\nmalformed\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n",
		fmt.Sprintf("Content-Length: %d\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n", 1<<20),
	} {
		c := dial(t, address)
		_, err := io.WriteString(c, "POST /first HTTP/1.1\r\nHost: h\r\n"+body)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		got, err := io.ReadAll(c)
		if err != nil {
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		assert.True(t, strings.HasSuffix(string(got), "\r\n\r\nhello"), "%q", got)
		assert.Equal(t, "/first", <-served)
		assert.Empty(t, served)
	}
	assert.Empty(t, said.String())
	families, err := p.metrics.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "sluice_proxy_responses_total" {
			require.Len(t, f.GetMetric(), 1, "what still comes is not counted")
			assert.InDelta(t, 4, f.GetMetric()[0].GetCounter().GetValue(), 0)
		}
	}
}

// TestPanicsAreLogged: a panic of net/http's, or of a handler, is the operator's to see. The faults of clients are not.
func TestPanicsAreLogged(t *testing.T) {
	address, said, _ := webOf(t, func(http.ResponseWriter, *http.Request) { panic("an accident") })
	c := dial(t, address)
	_, err := io.WriteString(c, "malformed, and as long as the preface of HTTP/2\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(c)
	require.NoError(t, err)
	c = dial(t, address)
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.True(t, strings.HasPrefix(said.String(), "http: panic serving "), said.String())
	assert.Contains(t, said.String(), "an accident")
}
