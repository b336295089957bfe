package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAdmin: limits are shown and changed, and what cannot be is said. A mistake changes and resets nothing.
func TestAdmin(t *testing.T) {
	p := serves(t, hello, `
global: {limit: fixed 100/1h}
policies:
  api: {key: ip, limit: fixed 1/1h}
  two: {limits: [fixed 5/1h, concurrency 2], upload: 1MiB/s}
  parts: {key: [ip, path:1], limit: fixed 1/1h}
  bytes: {key: ip, upload: 1MiB/s, download: 1MiB/s}
routes: {/: api, /two/: two, /parts/: parts}
`)
	for range 3 {
		_, _ = p.asks("GET", "/")
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"GET", "/limits", "", 200, `"concurrency 2"`},
		{"GET", "/limits/api", "", 200, `"limit": "fixed 1/h"`},
		{"GET", "/limits/nosuch", "", 404, "nosuch"},
		{"PUT", "/limits/nosuch", `{"limit": "1/s"}`, 404, "nosuch"},
		{"PUT", "/limits/api", `{"limit": "1/x"}`, 400, `unknown time "x"`},
		{"PUT", "/limits/api", `{"limit": 5}`, 400, `want {"limit"`},
		{"PUT", "/limits/api", `{"limit": "5MB/s"}`, 400, `"5MB/s" is an amount of bytes, but the limit counts requests`},
		{"PUT", "/limits/api", `{}`, 400, "want"},
		{"PUT", "/limits/api", `{"limit": "1/s", "limits": ["1/s"]}`, 400, "want"},
		{"PUT", "/limits/api", `{"rate": "1/s"}`, 400, "rate"},
		{"PUT", "/limits/api", `{"limit": "7/s"}}`, 400, "unexpected data after"},
		{"PUT", "/limits/api", `{"limit": "fixed 2/1h"}`, 200, `"limit": "fixed 2/h"`},
		{"PUT", "/limits/two", `{"limits": ["fixed 6/1h", "concurrency 3"]}`, 200, `"concurrency 3"`},
		{"PUT", "/limits/global", `{"limit": "concurrency 9"}`, 200, `"concurrency 9"`},
		{"PUT", "/limits/global", `{"limit": "concurrency 9 queue 5"}`, 400, "has no max-wait"},
		{"PUT", "/limits/bytes", `{"limit": "1/h"}`, 400, "policy bytes has no limit on requests that PUT could change; change its limits in "},
		{"GET", "/limits/bytes", "", 200, `"of": "upload"`},
		{"POST", "/limits/api", "", 405, ""},
		{"GET", "/limits/api/reset", "", 405, ""},
		{"POST", "/limits/nosuch/reset", "", 404, `no policy is named "nosuch"`},
		{"POST", "/limits/api/reset?key=acme", "", 400, `"acme" is not the address of a client`},
		{"POST", "/limits/api/reset?key=10.0.0.0/8", "", 400, "is not the address of a client"},
		{"POST", "/limits/api/reset?key=", "", 400, "is not the address"},
		{"POST", "/limits/api/reset?key=192.0.2.1&key=192.0.2.2", "", 400, "want a value for each part of the key: ip"},
		{"POST", "/limits/parts/reset?key=192.0.2.1", "", 400, "want a value for each part of the key: ip, path:1"},
		{"POST", "/limits/global/reset?key=a", "", 400, "the policy has no key"},
		{"POST", "/limits/api/reset?keys=127.0.0.1", "", 400, `unknown parameter "keys"`},
		{"POST", "/limits/api/reset?key=%zz", "", 400, "invalid URL escape"},
		{"POST", "/limits/api/reset", "key=127.0.0.1", 400, "want the key in the URL"},
		{"GET", "/limits/api?key=x", "", 400, `"x" is not the address of a client`},
		{"GET", "/limits/global?key=x", "", 400, "the policy has no key"},
		{"GET", "/limits/nosuch?key=x", "", 404, "nosuch"},
		{"GET", "/limits/parts?key=192.0.2.1", "", 400, "want a value for each part"},
		{"GET", "/limits/api?key=%zz", "", 400, "invalid URL escape"},
		{"GET", "/metrics", "", 200, `sluice_http_requests_total{sluice_http_policy="api",sluice_http_result="endpoint_limiter"} 2`},
		{"GET", "/metrics", "", 200, `sluice_partition_live{sluice_limiter_name="api"} 1`},
		{"GET", "/metrics", "", 200, `sluice_limiter_permits_limit{sluice_limiter_name="global"} 9`},
		{"GET", "/metrics", "", 200, `sluice_limiter_permits_limit{sluice_limiter_name="two/concurrency-1"} 3`},
	} {
		status, text := p.asksAdmin(test.method, test.path, test.body)
		assert.Equal(t, test.status, status, "%s %s %s: %s", test.method, test.path, test.body, text)
		assert.Contains(t, text, test.text, "%s %s %s", test.method, test.path, test.body)
	}
	for _, request := range []string{"GET /limits", "GET /limits/api", "PUT /limits/api", "POST /limits/api/reset"} {
		method, path, _ := strings.Cut(request, " ")
		status, text := p.asksAdmin(method, path, `{"limit": "fixed 9/1h"}`, "Origin", "http://localhost:9090")
		assert.Equal(t, http.StatusForbidden, status, "%s of a page in a browser: %s", request, text)
	}
	for _, want := range []int{200, 429} { // one of two is taken already
		status, _ := p.asks("GET", "/")
		assert.Equal(t, want, status)
	}
	p.draining.Store(true)
	status, _ := p.asksAdmin("GET", "/healthz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
}

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
