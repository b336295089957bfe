package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// grants returns how many of n requests pass.
func (r *running) grants(n int, path string, header ...string) (granted int) {
	r.t.Helper()
	for range n {
		if status, _ := r.asks("GET", path, header...); status == http.StatusOK {
			granted++
		}
	}
	return granted
}

// TestOverrides: some keys have other limits, each its own, and exempt keys none; what stays in the file keeps its counts.
func TestOverrides(t *testing.T) {
	b := backendOf(t, hello)
	text := func(acme string) string {
		return "to: " + b.URL + `
trusted: [127.0.0.0/8]
policies:
  key: {key: "header:X-Key", limits: [fixed 2/1h, sliding 9/1h], overrides: {acme: ` + acme + `, health: unlimited}}
  ip:  {key: ip, limit: fixed 2/1h, overrides: {10.0.0.0/8: fixed 4/1h, 10.1.0.0/16: unlimited}}
  all: {key: ip, download: 1MiB/s, overrides: {10.0.0.0/8: fixed 1/1h}}
routes: {/key: key, /ip: ip, /all: all}
`
	}
	p := serves(t, nil, text("[fixed 6/1h, sliding 5/1h]"))
	assert.Equal(t, 2, p.grants(8, "/key", "X-Key", "other"))
	assert.Equal(t, 5, p.grants(8, "/key", "X-Key", "acme"))
	assert.Equal(t, 8, p.grants(8, "/key", "X-Key", "health"))
	assert.Equal(t, 2, p.grants(8, "/ip", "X-Forwarded-For", "192.0.2.1"))
	assert.Equal(t, 4, p.grants(8, "/ip", "X-Forwarded-For", "10.0.0.1"))
	assert.Equal(t, 4, p.grants(8, "/ip", "X-Forwarded-For", "10.0.0.2"), "each client of a network has its own")
	assert.Equal(t, 8, p.grants(8, "/ip", "X-Forwarded-For", "10.1.0.1"))
	assert.Equal(t, 8, p.grants(8, "/ip", "X-Forwarded-For", "10.1.0.2"))
	assert.Equal(t, 8, p.grants(8, "/all", "X-Forwarded-For", "192.0.2.1"), "only some keys have a limit on requests")
	assert.Equal(t, 1, p.grants(8, "/all", "X-Forwarded-For", "10.0.0.1"))

	p.becomes(text("[fixed 6/1h, sliding 6/1h]"))
	assert.Equal(t, 1, p.grants(8, "/key", "X-Key", "acme"), "a larger limit keeps what it has counted")
	assert.Zero(t, p.grants(8, "/key", "X-Key", "other"))
	p.becomes(text("[concurrency 1, fixed 6/1h, sliding 7/1h]"))
	assert.Zero(t, p.grants(8, "/key", "X-Key", "acme"), "a limit that stays keeps what it has counted, whatever comes and goes beside it")
	p.becomes(text("concurrency 1"))
	assert.Equal(t, 8, p.grants(8, "/key", "X-Key", "acme"))
	assert.Zero(t, p.grants(8, "/key", "X-Key", "other"))
	assert.Zero(t, p.grants(8, "/ip", "X-Forwarded-For", "10.0.0.1"))
	require.NotContains(t, p.said.String(), "reload failed")

	_, shown := p.asksAdmin("GET", "/limits", "")
	assert.NotContains(t, shown, "acme", "keys are secrets")
	assert.Contains(t, p.scraped(), `sluice_partition_live{sluice_limiter_name="ip"} 4`, "one is that of all clients without a limit")
	assert.NotContains(t, p.scraped(), "acme")
}

// TestPutKeepsOverrides: what PUT changes is the limits of the other keys, and it must be possible with the cost.
func TestPutKeepsOverrides(t *testing.T) {
	p := serves(t, hello, "policies: {a: {key: 'header:X-Key', limit: fixed 2/1h, cost: 2, overrides: {acme: fixed 4/1h}}}\nroutes: {/: a}\n")
	put := func(limit string) int {
		status, _ := p.asksAdmin("PUT", "/limits/a", `{"limit": "`+limit+`"}`)
		return status
	}
	assert.Equal(t, 400, put("fixed 1/1h"))
	assert.Equal(t, 1, p.grants(5, "/", "X-Key", "other"))
	assert.Equal(t, 2, p.grants(5, "/", "X-Key", "acme"))
	assert.Equal(t, 200, put("fixed 6/1h"))
	assert.Equal(t, 2, p.grants(5, "/", "X-Key", "other"))
	assert.Zero(t, p.grants(5, "/", "X-Key", "acme"))
}

// TestKeyParts: each combination of the parts has its own limit, a segment has one reading or the response is 400.
func TestKeyParts(t *testing.T) {
	p := serves(t, hello, `
global: {limit: fixed 1000/1h}
policies:
  a: {key: ["header:X-Key", path:1], limit: fixed 1/1h}
  p: {key: path:2, limit: fixed 1/1h}
  f: {flow: path:2, limit: concurrency 5 queue 5 fair-share, max-wait: 1s}
routes: {/: a, /p/: p, /f/: f}
`)
	for _, test := range []struct {
		path, key string
		status    int
	}{
		{"/x/1", "a", 200},
		{"/x/2", "a", 429},
		{"/%78/3", "a", 429},
		{"/x", "b", 200},
		{"/y", "a", 200},
		{"/", "a", 200},
		{"/", "a/", 200},
		{"/a", "", 200},
		{"/x%2Fy", "c", 400},
		{"/x;v=1", "c", 400},
		{"/z/a%2Fb;c", "c", 200},
		{"/p/tenant/x", "", 200},
		{"/p/tenant", "", 429},
		{"/p/Tenant", "", 200},
		{"/p/tenant%2Fx", "", 400},
		{"/p/", "", 200},
		{"/p/", "", 429},
		{"/f/x/1", "", 200},
		{"/f/%78/1", "", 200},
		{"/f/x%2Fy", "", 400}, // requests wait by one reading of a segment, too
		{"/f/x;v=1", "", 400},
	} {
		status, _ := p.asks("GET", test.path, "X-Key", test.key)
		assert.Equal(t, test.status, status, "%v", test)
	}
	assert.Equal(t, 1000-17, p.left(0), "all but the 429s")
}

// TestShadow: a policy that is watched refuses no one, sends no fields, slows down nothing, and is counted and logged; to
// end that keeps what it has counted.
func TestShadow(t *testing.T) {
	b := backendOf(t, hello)
	text := func(shadow string) string {
		return "to: " + b.URL + "\nheaders: draft-11\npolicies: {a: {limit: fixed 2/1h, download: 1B/h burst 1B, shadow: " + shadow +
			"}, b: {limit: fixed 100/1h}}\nroutes: {/: [a, b]}\n"
	}
	p := serves(t, nil, text("true"))
	assert.Equal(t, 5, p.grants(5, "/"))
	a, _ := p.gets("GET", "/")
	assert.NotContains(t, a.Header.Get("Ratelimit"), `"a"`)
	assert.Contains(t, a.Header.Get("Ratelimit"), `"b"`)
	assert.Contains(t, p.scraped(), `sluice_http_requests_total{sluice_http_policy="a",sluice_http_result="shadowed"} 4`)
	assert.Contains(t, p.scraped(), `sluice_http_requests_total{sluice_http_policy="a",sluice_http_result="acquired"} 2`)
	assert.Contains(t, p.said.String(), "policy a: in shadow; it would have rejected a request: ")
	p.becomes(text("false"))
	assert.Zero(t, p.grants(1, "/"))
}
