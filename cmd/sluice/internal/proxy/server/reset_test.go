package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestReset: a client that is locked out is let in, and no one else.
func TestReset(t *testing.T) {
	p := serves(t, hello, `
trusted: [127.0.0.0/8]
global: {limit: fixed 100/1h}
policies:
  ip:     {key: ip, limit: fixed 1/1h, overrides: {10.0.0.0/8: [fixed 2/1h, concurrency 5]}}
  header: {key: "header:X-Key", limits: [fixed 1/1h, sliding 1/1h], upload: 1MiB/s}
  parts:  {key: ["header:X-Key", path:2], limit: fixed 1/1h, overrides: {vip: fixed 2/1h}}
  free:   {limit: unlimited}
routes: {/ip: ip, /header: header, /parts/: parts, /free: free}
`)
	asks := func(path, client string) int {
		status, _ := p.asks("GET", path, "X-Forwarded-For", client, "X-Key", client)
		return status
	}
	for _, test := range []struct {
		path, client, reset string
		n                   string
		status              int // after that
	}{
		{"/ip", "192.0.2.1", "/limits/ip/reset?key=192.0.2.1", "1", 200},
		{"/ip", "192.0.2.2", "/limits/ip/reset?key=192.0.2.3", "0", 429},
		{"/ip", "192.0.2.2", "/limits/ip/reset?key=%3A%3Affff%3A192.0.2.2", "1", 200},
		{"/ip", "2001:db8::7", "/limits/ip/reset?key=2001:db8::9", "1", 200},
		{"/ip", "10.1.2.3", "/limits/ip/reset?key=10.1.2.3", "1", 200},
		{"/header", "a b", "/limits/header/reset?key=a+b", "2", 200},
		{"/header", "a/b", "/limits/header/reset?key=a", "0", 429},
		{"/header", "a/b", "/limits/header/reset?key=a%2Fb", "2", 200},
		{"/header", strings.Repeat("k", 100), "/limits/header/reset?key=" + strings.Repeat("k", 100), "2", 200},
		{"/header", "", "/limits/header/reset?key=", "2", 200},
		{"/parts/x", "acme", "/limits/parts/reset?key=x&key=acme", "0", 429},
		{"/parts/x", "acme", "/limits/parts/reset?key=acme&key=x", "1", 200},
		{"/parts/", "a/x", "/limits/parts/reset?key=a&key=x", "0", 429},
		{"/parts/", "a/x", "/limits/parts/reset?key=a/x&key=", "1", 200},
		{"/parts/x", "vip", "/limits/parts/reset?key=vip&key=x", "1", 200},
		{"/parts/y", "acme", "/limits/parts/reset", "7", 200},
		{"/free", "x", "/limits/free/reset", "0", 200},
	} {
		for range 4 {
			asks(test.path, test.client)
		}
		status, body := p.asksAdmin("POST", test.reset, "")
		assert.Equal(t, http.StatusOK, status, body)
		if test.n != "7" {
			assert.JSONEq(t, `{"reset": `+test.n+`}`, body, "%v", test)
		}
		assert.Equal(t, test.status, asks(test.path, test.client), "%v", test)
	}
	status, body := p.asksAdmin("POST", "/limits/global/reset", "")
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"reset": 1}`, body)
	assert.Equal(t, 100, p.left(0))
	assert.NotContains(t, p.said.String(), "acme", "keys are secrets")
}
