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
