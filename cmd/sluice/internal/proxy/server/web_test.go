package server

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
