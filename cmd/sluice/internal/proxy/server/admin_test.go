package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAdmin: limits are shown and changed, and what cannot be is said. A mistake changes and resets nothing.
func TestAdmin(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+`
global: {limit: fixed 100/1h}
policies:
  api: {key: ip, limit: fixed 1/1h}
  two: {limits: [fixed 5/1h, concurrency 2], upload: 1MiB/s}
  parts: {key: [ip, path:1], limit: fixed 1/1h}
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
		{"PUT", "/limits/api", `{}`, 400, "want"},
		{"PUT", "/limits/api", `{"limit": "1/s", "limits": ["1/s"]}`, 400, "want"},
		{"PUT", "/limits/api", `{"rate": "1/s"}`, 400, "rate"},
		{"PUT", "/limits/api", `{"limit": "7/s"}}`, 400, "unexpected data after"},
		{"PUT", "/limits/api", `{"limit": "fixed 2/1h"}`, 200, `"limit": "fixed 2/h"`},
		{"PUT", "/limits/two", `{"limits": ["fixed 6/1h", "concurrency 3"]}`, 200, `"concurrency 3"`},
		{"PUT", "/limits/global", `{"limit": "concurrency 9"}`, 200, `"concurrency 9"`},
		{"PUT", "/limits/global", `{"limit": "concurrency 9 queue 5"}`, 400, "has no max-wait"},
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
	} {
		status, text := p.asksAdmin(test.method, test.path, test.body)
		assert.Equal(t, test.status, status, "%s %s %s: %s", test.method, test.path, test.body, text)
		assert.Contains(t, text, test.text, "%s %s %s", test.method, test.path, test.body)
	}
	for _, want := range []int{200, 429} { // one of two is taken already
		status, _ := p.asks("GET", "/")
		assert.Equal(t, want, status)
	}
	p.draining.Store(true)
	status, _ := p.asksAdmin("GET", "/healthz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
}

// TestAdminAndBrowsers: a page in a browser neither sees nor changes limits, under whatever name it reaches the proxy.
func TestAdminAndBrowsers(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+"\nadmin: proxy.internal:9090\nglobal: {limit: fixed 100/1h}\n")
	for _, test := range []struct {
		method, path, host, header string
		status                     int
	}{
		{"PUT", "/limits/global", "127.0.0.1:9090", "", 200},
		{"PUT", "/limits/global", "localhost:9090", "", 200},
		{"PUT", "/limits/global", "proxy.internal", "", 200},
		{"PUT", "/limits/global", "evil.example:9090", "", 403}, // which leads to 127.0.0.1 by now
		{"GET", "/limits/global", "evil.example:9090", "", 403},
		{"GET", "/limits", "127.0.0.1.evil.example", "", 403},
		{"POST", "/limits/global/reset", "127.0.0.1:9090", "Origin", 403},
		{"PUT", "/limits/global", "127.0.0.1:9090", "Origin", 403},
		{"PUT", "/limits/global", "localhost:9090", "Sec-Fetch-Site", 403},
		{"GET", "/metrics", "proxies:9090", "", 200},
		{"GET", "/healthz", "proxies:9090", "", 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader(`{"limit": "fixed 100/1h"}`))
		r.Host = test.host
		if test.header != "" {
			r.Header.Set(test.header, "http://localhost:9090")
		}
		w := httptest.NewRecorder()
		p.admin().ServeHTTP(w, r)
		assert.Equal(t, test.status, w.Code, "%v", test)
	}
}
