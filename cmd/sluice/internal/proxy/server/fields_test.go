package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConnectionHidesNothing: the limits count by the value that a backend gets. A header that Connection names is dropped, so it is
// not a key, an override or a flow: such requests are those of a client without a key.
func TestConnectionHidesNothing(t *testing.T) {
	const text = `
policies:
  keys:   {key: "header:X-Api-Key", limit: fixed 2/1h, overrides: {partner: unlimited}}
  logins: {key: "cookie:session", limit: fixed 2/1h}
  bearer: {key: "header:Authorization", limit: fixed 2/1h}
routes: {/k: keys, /c: logins, /a: bearer}
`
	p := serves(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key")+r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
			w.WriteHeader(http.StatusUnauthorized) // it knows no one
		}
	}, text)
	for _, test := range []struct{ path, fields string }{
		{"/k", "X-Api-Key: key%d\r\nConnection: X-Api-Key\r\n"},
		{"/k", "X-Api-Key: partner\r\nConnection: close, x-api-key\r\n"},
		{"/k", "X-Api-Key: key%d\r\nConnection: close\r\nConnection:  x-API-key ,\r\n"},
		{"/c", "Cookie: session=%d\r\nConnection: cookie\r\n"},
		{"/a", "Authorization: Bearer %d\r\nConnection: authorization\r\n"},
	} {
		for _, policy := range []string{"keys", "logins", "bearer"} {
			_, _ = p.asksAdmin("POST", "/limits/"+policy+"/reset", "")
		}
		var got []string
		for i := range 4 {
			fields := strings.Replace(test.fields, "%d", strconv.Itoa(i), 1)
			got = append(got, statusIn(p.raw("GET "+test.path+" HTTP/1.0\r\nHost: h\r\n"+fields+"\r\n", false)))
		}
		assert.Equal(t, []string{"200", "200", "429", "429"}, got, test.fields)
	}
	got := p.raw("GET /k HTTP/1.0\r\nHost: h\r\nX-Api-Key: key\r\nConnection: close\r\n\r\n", false)
	assert.Equal(t, "401", statusIn(got), "it is a key if Connection does not name it")
}

// TestClientsSpeakForThemselves: headers by which proxies tell of their clients do not pass from others, neither as headers nor as
// trailers, and those for a proxy alone never do.
func TestClientsSpeakForThemselves(t *testing.T) {
	spoken := []string{
		"Cf-Connecting-Ip", "Client-Ip", "Fastly-Client-Ip", "Forwarded", "Front-End-Https", "Proxy", "True-Client-Ip", "X-Client-Ip",
		"X-Cluster-Client-Ip", "X-Forwarded", "X-Forwarded-By", "X-Forwarded-Method", "X-Forwarded-Port", "X-Forwarded-Prefix",
		"X-Forwarded-Scheme", "X-Forwarded-Server", "X-Forwarded-Ssl", "X-Forwarded-Uri", "X-Original-Url", "X-Real-Ip", "X-Rewrite-Url",
		"X-Scheme",
	}
	single := []string{"Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection"}
	var fields, trailers strings.Builder
	for _, name := range append(append([]string{"X-Passes"}, spoken...), single...) {
		fields.WriteString(name + ": 6.6.6.6\r\n")
		trailers.WriteString(strings.Replace(name, "X-Passes", "X-Last", 1) + ": 6.6.6.6\r\n")
	}
	for _, trusted := range []bool{false, true} {
		got := make(chan http.Header, 2)
		b := backendOf(t, func(_ http.ResponseWriter, r *http.Request) {
			got <- r.Header.Clone()
			_, _ = io.Copy(io.Discard, r.Body)
			got <- r.Trailer
		})
		text := "to: " + b.URL + "\n"
		if trusted {
			text += "trusted: 127.0.0.1\n"
		}
		p := serves(t, nil, text)
		p.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close, TE, X-Named\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: X-Last\r\n"+
			fields.String()+"X-Named: 1\r\n\r\n2\r\nhi\r\n0\r\n"+trailers.String()+"\r\n", false)
		header, trailer := <-got, <-got
		assert.Equal(t, http.Header{"X-Last": {"6.6.6.6"}}, trailer)
		assert.NotEmpty(t, header["X-Passes"])
		assert.Equal(t, []string{"trailers"}, header["Te"])
		for _, name := range append(single, "X-Named") {
			assert.Empty(t, header[name], name)
		}
		for _, name := range spoken {
			assert.Equal(t, trusted && name != "Forwarded", header[name] != nil, name)
		}
	}
}

// TestEarlyHints: an informational response has no header for the proxy alone, as the last response has none. That has the fields of the
// limits, nothing of the informational ones, and no type that the backend did not say.
func TestEarlyHints(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\nConnection: X-Internal, Upgrade\r\nX-Internal: 10.0.0.7\r\n" +
		"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic realm=b\r\nUpgrade: websocket\r\n\r\n"
	to, _ := noting(t, "Content-Length: 2\r\n\r\nok", hints, hints)
	p := serves(t, nil, "to: "+to+"\nglobal: {limit: 5/h}\nheaders: x-ratelimit\n")
	c := dial(t, p.address)
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(c)
	for range 2 {
		a, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusEarlyHints, a.StatusCode)
		assert.Equal(t, []string{"</s.css>; rel=preload"}, a.Header["Link"])
		for _, name := range []string{"Connection", "X-Internal", "Keep-Alive", "Proxy-Authenticate", "Upgrade"} {
			assert.Empty(t, a.Header[name], name)
		}
	}
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.NotEmpty(t, a.Header["X-Ratelimit-Limit"])
	assert.NotContains(t, a.Header, "Content-Type")
	assert.NotContains(t, a.Header, "Link")
}

// leavingClient is net/http's writer of HTTP/2 whose client disconnects amid an informational response: its fields may be read
// after WriteHeader.
type leavingClient struct {
	*httptest.ResponseRecorder

	leaves func()
}

func (w leavingClient) WriteHeader(int) { w.leaves() }

// TestClientLeavesAmidEarlyHints: the fields of an informational response do not change while they may still be read.
func TestClientLeavesAmidEarlyHints(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := leavingClient{httptest.NewRecorder(), cancel}
	x := newExchange(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	x.Header().Set("Ratelimit", "9")
	x.keepFields()
	h := x.Header() // as a ReverseProxy does
	h.Set("Link", "</a>")
	x.WriteHeader(http.StatusEarlyHints)
	clear(h)
	x.Header().Set("Content-Type", "text/plain")
	x.WriteHeader(http.StatusBadGateway)
	x.served()
	assert.Equal(t, http.Header{"Link": {"</a>"}, "Ratelimit": {"9"}}, w.Header())
	assert.Equal(t, http.StatusBadGateway, x.status)
	assert.Equal(t, "9", x.Header().Get("Ratelimit"))
}
