package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStateOfAKey: the admin address says what a key has left.
func TestStateOfAKey(t *testing.T) {
	b := backendOf(t, hello)
	text := "to: " + b.URL + `
trusted: [127.0.0.0/8]
policies:
  api:  {key: ip, limits: [fixed 3/1h, concurrency 5], overrides: {192.0.2.9: fixed 7/1h, 192.0.2.8: unlimited}}
  user: {key: [header:X-Api-Key, path:1], limit: fixed 1/1h}
  all:  {limit: fixed 1000/1h}
routes: {/: [all, api], /user/: user}
`
	p := serves(t, text)
	for client, n := range map[string]int{"192.0.2.1": 4, "192.0.2.2": 6, "192.0.2.3": 1, "192.0.2.9": 2} {
		for range n {
			_, _ = p.asks("GET", "/", "X-Forwarded-For", client)
		}
	}
	for range 3 {
		_, _ = p.asks("GET", "/user/", "X-Api-Key", "secretkey")
	}
	available := func(path string) (all []int) {
		status, text := p.asksAdmin("GET", path, "")
		require.Equal(t, 200, status, text)
		var report keyReport
		require.NoError(t, json.Unmarshal([]byte(text), &report))
		for _, f := range report.State {
			if f.Available != nil {
				all = append(all, *f.Available)
			}
		}
		return all
	}
	assert.Equal(t, []int{0, 5}, available("/limits/api?key=192.0.2.1"))
	assert.Equal(t, []int{2, 5}, available("/limits/api?key=192.0.2.3"))
	assert.Equal(t, []int{3, 5}, available("/limits/api?key=192.0.2.7"), "nobody has seen it")
	assert.Equal(t, []int{5}, available("/limits/api?key=192.0.2.9"), "an override")
	assert.Empty(t, available("/limits/api?key=192.0.2.8"), "unlimited")
	assert.Equal(t, []int{0}, available("/limits/user?key=secretkey&key=user"))
	for path, want := range map[string]int{"/limits/api?key=x": 400, "/limits/all?key=x": 400, "/limits/nosuch?key=x": 404, "/limits/user?key=x": 400, "/limits/api?key=%zz": 400} {
		status, text := p.asksAdmin("GET", path, "")
		assert.Equal(t, want, status, "%s: %s", path, text)
	}
}

// TestKeysByCookieAndQuery: and requests of which a backend may read another value get 400.
func TestKeysByCookieAndQuery(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+`
policies:
  session: {key: "cookie:id", limit: fixed 1/1h}
  token:   {key: ["query:token", ip], limit: fixed 1/1h}
routes: {/c: session, /q: token}
`)
	for _, test := range []struct {
		path, cookie string
		status       int
	}{
		{"/c", "a=1; id=x; b=2", 200},
		{"/c", "id=x", 429},
		{"/c", `id="x"`, 429},
		{"/c", "id=y", 200},
		{"/c", "ID=x", 200}, // another name: no value
		{"/c", "", 429},
		{"/c", "id=z; id=x", 400},
		{"/c", "id=z;a=1;id=", 400},
		{"/q?token=x&b=1", "", 200},
		{"/q?b=1&tok%65n=x", "", 429},
		{"/q?token=y", "", 200},
		{"/q", "", 200},
		{"/q?token=", "", 429},
		{"/q?token=z&token=x", "", 400},
		{"/q?token=z;token=x", "", 400},
		{"/q?token=%zz", "", 400},
		{"/c", "id=%78", 429},
		{"/c", "id=%y", 200},
		{"/c", "id=%y", 429},
		{"/c", `id="\170"`, 400},
		{"/c", "id=r; i%64=x", 400},
		{"/c", "id=r, id=x", 400},
		{"/c", "a=r, id=x", 400},
		{"/c", "id=r; ID=x", 400},
		{"/c", "id=r; id[]=x", 400},
		{"/c", "id[]=x", 429},
		{"/q?tok.en=r&token=w", "", 200},
		{"/q?token[]=x", "", 429},
		{"/q?token[]=x&token=r", "", 400},
		{"/q?token=r&%20token=x", "", 400},
		{"/q?Token=r&token=x", "", 400},
	} {
		header := []string{"Cookie", test.cookie}
		if test.cookie == "" {
			header = nil
		}
		status, _ := p.asks("GET", test.path, header...)
		assert.Equal(t, test.status, status, "%v", test)
	}
}

// TestOneAuthorization: the case of a scheme and the spaces behind it make no other key, and overrides find it.
func TestOneAuthorization(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+"\nglobal: {key: 'header:Authorization', limit: fixed 1/1h, overrides: {BEARER  other: fixed 2/1h}}\n")
	for i, value := range []string{"Bearer tok", "bearer tok", "BEARER  tok", "Bearer\ttok", "Bearer TOK", "bearer other", "Bearer other", "Bearer  other"} {
		want := []int{200, 429, 429, 429, 200, 200, 200, 429}[i]
		status, _ := p.asks("GET", "/", "Authorization", value)
		assert.Equal(t, want, status, value)
	}
	status, _ := p.asks("GET", "/", "Authorization", "Bearer tok x")
	assert.Equal(t, 400, status)
	assert.Equal(t, []int{0}, p.leftOf("global", "bEARER tok"))
}

// TestFoldedHeaders: programs behind CGI take X_Api_Key for X-Api-Key.
func TestFoldedHeaders(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.ContainsAny(name, "_.") {
				w.WriteHeader(http.StatusTeapot)
			}
		}
	})
	text := "to: " + b.URL + "\nglobal: {key: 'header:X-Api-Key', limit: fixed 100/1h}\n"
	p := serves(t, text)
	for _, name := range []string{"X_Api_Key", "x_api-key", "X.Api.Key"} {
		status, _ := p.asks("GET", "/", "X-Api-Key", "a", name, "b")
		assert.Equal(t, 200, status, name)
	}
	p.becomes(text + "underscores: true\n")
	for name, want := range map[string]int{"X_Api_Key": 400, "x_api-key": 400, "X.Api.Key": 200, "X_Api_Kez": 418} {
		status, _ := p.asks("GET", "/", name, "b")
		assert.Equal(t, want, status, name)
	}
}

// TestShadowRejectsNothing: also not a request of whose key a backend may read another value.
func TestShadowRejectsNothing(t *testing.T) {
	b := backendOf(t, hello)
	p := serves(t, "to: "+b.URL+"\nglobal: {key: 'query:id', limit: fixed 1/1h, shadow: true}\n")
	for range 2 {
		status, _ := p.asks("GET", "/?id=a&id=b")
		assert.Equal(t, 200, status)
	}
}
